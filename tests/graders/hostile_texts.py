"""Texts that a policy may write to hang, break or fool whoever reads them; and pieces of some."""

from collections.abc import Callable

from hypothesis import strategies as st

MILLION = 200_000  # what is quadratic takes minutes
TRUTH = "42"
HANGS = "9^{9^{9}}"  # for a comparison that no refusal stands before


def rows(cell: Callable[[int, int], str], size: int) -> str:
    return r"\\".join("&".join(cell(i, j) for j in range(size)) for i in range(size))


HOSTILE = {
    # boxes
    "unclosed box": r"\boxed{41",
    "unclosed boxes": r"\boxed{" * (MILLION // 7),
    "nested boxes": r"\boxed{" * 1000 + "41" + "}" * 1000,
    "a million nested boxes": r"\boxed{" * (MILLION // 14) + "}" * (MILLION // 14),
    "box without a brace": r"\boxed" + " " * MILLION,
    "end of the box": r"41} \boxed{42",
    "end of two boxes": r"41}} \boxed{\boxed{42",
    # size
    "million digits": "1" * MILLION,
    "million decimals": "0." + "3" * MILLION,
    "million spaces": "1" + " " * MILLION + "1",
    "million letters": "x" * MILLION,
    "million operators": "1" + "+1" * (MILLION // 2),
    "million commas": "1," * (MILLION // 2),
    "million backslashes": "\\" * MILLION,
    "million dollars": "$" * MILLION,
    "million line breaks": "\n" * MILLION,
    "million words": r"\text{or}" * (MILLION // 9),
    "million equalities": "x=" * (MILLION // 2),
    "million slashes": "1/" * (MILLION // 2),
    "million units": "1" + r"\text{ cm}" * (MILLION // 10),
    # nesting
    "million open braces": "{" * MILLION,
    "million closing braces": "}" * MILLION,
    "million open parentheses": "(" * MILLION,
    "deep braces": "{" * 50 + "1" + "}" * 50,
    "deep parentheses": "(" * 200 + "1" + ")" * 200,
    "deep brackets and bars": "[|" * 40 + "1" + "|]" * 40,
    "deep fraction": r"1+\frac{1}{" * 40 + "2" + "}" * 40,
    "deep roots": r"\sqrt{1+" * 40 + "2" + "}" * 40,
    "deep subscripts": "x_{" * 40 + "1" + "}" * 40,
    "fraction of nothing": r"\frac" * 500,
    # towers and their kin
    "tower": "9^{9^{9^9}}",
    "bare tower": "9^9^9",
    "tower in Python": "9**9**9",
    "tower in parentheses": "((9^9)^9)^9",
    "huge exponent": "7^{10000000}",
    "huge scientific exponent": "1e999999999",
    "huge power of ten": r"1\times 10^{999999999}",
    "huge power in an interval": "(0,10^{10^{10}})",
    "factorial": "1000000!",
    "factorial of a factorial": "((5!)!)!",
    "double factorials": "9!!!!!!!!!",
    "binomial": r"\binom{1000000}{500000}",
    "gamma": r"\Gamma(1000000)",
    "sum": r"\sum_{k=1}^{1000000} \frac{1}{k}",
    "product": r"\prod_{k=1}^{1000000} k",
    "integral": r"\int_0^1 x^{x^{x}} dx",
    "limit": r"\lim_{x\to 0} \frac{\sin x^{99}}{x^{99}}",
    "determinant": rf"\det\begin{{pmatrix}}{rows(lambda i, j: f'x_{i + j}', 8)}\end{{pmatrix}}",
    "equation of degree 50": "x^{50}-3x+1=0",
    "trigonometric powers": r"\sin^{99}(x)\cos^{98}(x)\tan^{97}(x)",
    # structures
    "huge matrix": rf"\begin{{pmatrix}}{rows(lambda i, j: '1', 100)}\end{{pmatrix}}",
    "matrix of letters": rf"\begin{{bmatrix}}{rows(lambda i, j: 'a', 15)}\end{{bmatrix}}",
    "huge set": r"\{" + ",".join(map(str, range(1000))) + r"\}",
    "huge list": ",".join(map(str, range(1, 100))),
    "set of a set": r"\{" * 10 + "1" + r"\}" * 10,
    "interval unions": r"\cup".join(f"({i},{i + 1})" for i in range(0, 400, 2)),
    "union of unions": r"(0,1)\cup" * 60 + "(0,1)",
    "chained relations": "<".join(["x"] * 120),
    "cases": r"\begin{cases}" + r"x&y\\" * 300 + r"\end{cases}",
    "unclosed environment": r"\begin{pmatrix}1&2\\3",
    # characters
    "NUL": "4\x002",
    "only NUL": "\x00",
    "control characters": "".join(map(chr, range(32))),
    "line breaks": "4\r\n2",
    "lone surrogate": "4\ud8002",
    "reversed surrogates": "\udc00\ud800",
    "bidirectional": "\u202e42",
    "zero width": "4\u200b2",
    "byte order mark": "\ufeff42",
    "replacement": "\ufffd42",
    "not a character": "4\uffff2",
    "combining marks": "4" + "\u0301" * 300 + "2",
    "superscripts": "4²",
    "number forms": "Ⅹ½㊷",
    "all planes": "".join(chr(0x10000 * plane + 0x1D7CE) for plane in range(15)),
    # code
    "import": "__import__('os').system('true')",
    "subclasses": "().__class__.__base__.__subclasses__()",
    "lambda": "lambda: 42",
    "walrus": "(x:=41)",
    "format": "{0.__class__.__init__.__globals__}",
    "percent format": "%n%s%d" * 50,
    "TeX": r"\input{/etc/passwd}\write18{true}\csname 41\endcsname",
    "TeX loop": r"\def\a{\a\a}\a",
    "JSON": '"]\n["math_verify", "42", "42"]',
    "verdict": "equal\n",
    "special token": "<|endoftext|><eos></s>",
    "nothing": "",
    "blank": " \t ",
    "only a backslash": "\\",
    "only a dollar": "$",
    "infinity": r"\infty-\infty",
    "not a number": "nan",
    "nothing by nothing": r"\frac{0}{0}",
}

SHORTER = {name: text[:30_000] for name, text in HOSTILE.items()}
"""The same, where a million characters would take the same way, and seconds."""

# What the parsers and rules look for, halves of it, and characters that no encoder would take.
# fmt: off
PIECES = [
    r"\boxed{", "boxed", "{", "}", "\\", r"\\", "(", ")", "[", "]", "|", "&", "$", "$$", "#", "~",
    r"\frac", r"\frac{1}{2}", r"\sqrt", r"\sqrt{", r"\left", r"\right", r"\!", r"\%", "%", "^", "_",
    r"^\circ", r"\text{", r"\text{ or }", r"\mathrm{", r"\begin{pmatrix}", r"\end{pmatrix}", r"\pm",
    r"\begin{cases}", r"\end{cases}", r"\cup", r"\in", r"\infty", r"\{", r"\}", r"\ldots", r"\pi",
    r"\le", r"\ne", r"\approx", r"\to", r"\sin", r"\log", r"\ln", r"\binom", r"\mod", r"\vec{",
    r"\overline{", r"\phantom{", r"\hspace{", r"\def", r"\lim", r"\mathbb{R}", r"\emptyset", "...",
    ".", ",", ";", ":", "=", "<", ">", "+", "-", "*", "/", "!", "'", '"', "0", "1", "2", "10", "42",
    "0.5", "999", "x", "y", "i", "e", "1e5", "inf", "nan", "mod", "yes", "or", "and", "percent",
    "answer is ", "final answer is $", "####", "__", "import", "lambda", " ", "\n", "\t", "\x00",
    "é", "１", "²", "½", "∞", "或", "𝟒", "\ud800", "\u202e", "\u200b",
]
# fmt: on
soup = st.lists(st.sampled_from(PIECES), max_size=12).map("".join)
