// Formulas are drawn as MathML, by the KaTeX that `barl inspect` brings.
for (const element of document.querySelectorAll(".arithmatex")) {
  const text = element.textContent;
  const isBlock = text.startsWith("\\[");
  katex.render(text.slice(2, -2), element, { displayMode: isBlock, output: "mathml", throwOnError: false });
}
