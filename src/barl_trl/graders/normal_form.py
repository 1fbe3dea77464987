"""The normal form of an answer: equal forms are equal answers, and a parser may read them."""

import re
import unicodedata
from itertools import accumulate

MAX_TRUTH_CHARS = 512  # longest admissible true answer: no parser gets longer ones

_BRACE = re.compile(r"\\.|[{}\\]", re.DOTALL)
_POWER = r"(?:\^|\*\*)[\s{(+-]*"
_HUGE = re.compile(  # five digits, three digits twice, and towers but for `2^{3^2}`
    rf"{_POWER}(?!10000(?!\d))\d{{5}}|{_POWER}\d{{3,}}[\s}})]*{_POWER}\d{{3}}"
    rf"|{_POWER}\d+{_POWER}(?:\d+{_POWER}|\d\d|[4-9])|{_POWER}\d\d+{_POWER}\d"
)
_FACTORIAL = re.compile(r"\d{5}[\s)}]*!|![\s)}\]]*!|\\[dt]?binom[\s{]*\d{5}|\\det|Gamma\W*\d{4}")
_COSTLY = re.compile(r"\\(?:sum|prod|i*nt|oint|lim|gcd|lcm|Gamma)(?![A-Za-z])")
_MAX_CHARS = 1024  # of longer answers only spaces change: some patterns take cubic time

TEXT = re.compile(
    r"\\(?:(?:text|math)(?:bf|it|rm|sf|tt)|text(?:normal)?|emph|mbox|hbox|bold(?:symbol)?)"
    r"\s*\{([^{}\\]*)\}"
)
_OLD_FONT = r"\{ ?\\(?:rm|bf|it|sf) +([^{}\\]*)\}"
# Characters with a plain form: full-width ones and blanks, superscripts, fractions (`（1，2）`,
# `5~cm`, `x²`, `⅜`), and the signs in Arabic numbers.
_PLAIN = {n: n - 0xFEE0 for n in range(0xFF01, 0xFF5F)} | {0x3002: ".", 0x3001: ",", 0x7E: " "}
_PLAIN |= {0x66A: "%", 0x66B: ".", 0x66C: ",", 0x60C: ","}
_PLAIN |= {ord(sign): f"^{digit}" for digit, sign in enumerate("⁰¹²³⁴⁵⁶⁷⁸⁹")}
_PLAIN |= {
    n: "\\frac{" + unicodedata.normalize("NFKC", chr(n)).replace("⁄", "}{") + "}"
    for n in (*range(0xBC, 0xBF), *range(0x2150, 0x215F))
}
_OTHER_DIGIT = re.compile(r"(?![0-9])\d")  # of another script: ٤, ४
_MATH_MODE = re.compile(
    r"(?<!\\)(?:(\$\$?)(?P<a>[^$]+)(?<!\\)\1|\\\((?P<b>.+?)\\\)|\\\[(?P<c>.+?)\\\])", re.DOTALL
)
_BOX = re.compile(r"\\(?:[a-z]*boxed|f(?:rame)?box)\s*\{(.*)\}|\*\*([^*]+)\*\*", re.DOTALL)
_BEHIND = re.compile(r"(?:(?<!\.)\.|[,;])$|^=(?!=)")

_NUMBER = re.compile(r"(?<!\^)(?<!\^-)(\d[\d.,:]*\d|\d|,)")
_LETTERS = re.compile(
    r"[\u3000-\u9fff]|\d [mgshlLACFKNJWV]$|[^\W\d_]{2}|[^\W\d_][. ][^\W\d_]|[^\W\d_]/"
)
_UNIT = re.compile(r"\\(?:text|mathrm|mbox)\{ ?[mgshlLACFKNJWV] ?\}")
_FUNCTION = re.compile(r" *((?:arc)?(?:sin|cos|tan)|cot|sec|csc|log|ln|exp) *")
_ARGUMENT = re.compile(  # `\sec^2\,x`; a second, `5\text{ sec}`, has none
    r"(?: |\\[,;:! ]|\^ ?(?:\{[^{}]*\}|\w))*"
    r"(?:[\w({[|]|\\(?!text|mathrm|right|approx|cdot|times)[A-Za-z])"
)

_SIGNS = r"""
    − - – - ≈ \approx π \pi ∞ \infty × \times · \cdot ⋅ \cdot ≤ \le ≥ \ge ≠ \ne → \to
    ∪ \cup ∩ \cap ∈ \in ± \pm ∓ \mp ° ^\circ º ^\circ ⁄ / ’ ' ∠ \angle ℤ \mathbb{Z} ℝ \mathbb{R}
    ∅ \emptyset \varnothing \emptyset \degree ^\circ {:} : \colon : \% % \lbrace \{ \rbrace \}
    \langle ( \rangle ) \dfrac \frac \tfrac \frac \cfrac \frac
    \$ \text{dollar} $ \text{dollar} € \text{euro} £ \text{pound} ¥ \text{yen}
"""
_TEX: dict[str, str] = dict(zip(_SIGNS.split()[::2], _SIGNS.split()[1::2], strict=True))
_SIGN = re.compile("|".join(map(re.escape, _TEX)))
_RULES = {
    _OLD_FONT: r"\\text{\1}",
    r"(TEXT[^{}]*\^)\{(-?\d)\}": r"\1\2",  # m/s^{2}
    r"\\frac ?\{ ?TEXT([^{}]*)\} ?\} ?\{ ?TEXT([^{}]*)\}([^{}]*)\}": r"\\text{\1/\2}\3",
    r"(TEXT[^{}]*)\} ?/ ?TEXT": r"\1/",
    r"(TEXT[^{}\\]*?) ?\\cdot(?![a-z]) ?": r"\1 ",
    TEXT.pattern: lambda text: _numbers_and_words(text),
    r"(?<!\\)\\$": "",
    r"(?<=\d)(?:\\,|,?\\!|\{,\}) ?(?=\d{3}(?!\d))": "",  # 10{,}000
    r"\\(?:left|right|[bB]igg?[lrm]?|displaystyle|textstyle|bf|rm|it)(?![A-Za-z])\.?": "",
    r"\\(?:text)?color ?\{[a-z]+\}": "",
    r"\\(?:underline|boldsymbol|bm|mathbf|bold|vec|overrightarrow) ?(?=\{)": "",
    r"\\(?:mathbb|Bbb) ?\{? ?([A-Z]) ?\}?|\\(R)(?![A-Za-z])": r"\\mathbb{\1\2}",
    r"\^ ?\{ ?\\circ ?\}": r"^\\circ ",
    r"(?<=\d)[eE]([+-]?\d{1,3})(?![\w.])": r"\\times 10^{\1}",
    r"√(\d+|[A-Za-z])|√\(((?:[^()]|\([^()]*\))*)\)": r"\\sqrt{\1\2}",
    r"\( ?(?:\\(?:text|mathrm) ?\{ ?mod ?\}|mod) ?(\d+) ?\)": r"\\pmod{\1}",
    r"(?<=[\d}]) ?(?:\\text\{ ?)?(?:percent(?:age)?|pct)\.?(?: ?\})?$": "%",
    r"\\\\\[[\d.]+ ?[a-z]{2}\]": r"\\\\",
    r"(?<![\d:.])0(?=\d:\d\d)": "",
    r"(?<![\\\w}])[({]([0-9A-F]+)[)}](?=_)": r"\1",  # (101)_2
    r"(?:(?<=\d)|(?<=\d[A-F]))_\{(\d+)\}": r"_\1",
    r"(?<=\d) ?\\text\{ ?to ?\} ?(?=\d)": ":",
    r"(?<=\d) x (?=10 ?\^)": r"\\times ",
    r"\\frac ?\\pi(?= ?[\d{\\])": r"\\frac{\\pi}",
    r"\\sqrt(\[\d*[13579]\])\{-(\d+)\}": r"(-\\sqrt\1{\2})",
    r"^([\[(][^,;]*);([^,;]*[\])])$": r"\1,\2",
    r"^(?:\\text\{ ?)?[Nn]o (?:real )?solutions?(?: ?\})?$": r"\\emptyset",
    r"^(?:\\text\{ ?)?[Aa]ll real(?: number)?s?(?: ?\})?$": r"\\mathbb{R}",
    r"\\\{ ?([^|:∣]{2,}?) ?(?:[|:∣]|\\mid) ?(\w ?\\in ?\\mathbb\{[A-Z]\}) ?\\\}$": r"\1, \2",
    r"(?<=\d\.)(\d{0,9})(?:\\(?:bar|dot) ?\{?(\d+)\}?|\((\d+)\))": r"\1\\overline{\2\3}",
    r"(?<=\.)(\d{0,9}?)(\d{1,9}?)\2{2,}(?:\\[lc]?dots|\.\.\.|…)$": r"\1\\overline{\2}",
    r"\\\{ ?\w ?(?:\\in ?\\mathbb\{R\} ?)?(?:[|:∣]|\\mid|\\vert)"  # {x | x > 1}
    r" ?([^|:]*[<>=].*|.*\\[lgn]e.*)\\\}$": r"\1",
    r"(\\\\)|\\(?:[,;:! ]|q?quad(?![A-Za-z]))": lambda space: space[1] or " ",
    r"\\\{ *\\\}": r"\\emptyset",
    r"^(\w) ?= ?(\d+)(\w) ?([+-] ?\d+)?[ ,(]*\3 ?\\in ?\\mathbb.{3}.?$": r"\1\\equiv 0\4\\pmod{\2}",
    r"(?<![\w.}])(?:0(?=[+-]))?([+-]?) ?(\d+) *\\pmod ?\{?([1-9]\d*)\}?": lambda residue: (
        rf"{int(residue[1] + residue[2]) % int(residue[3])}\pmod{{{residue[3]}}}"
    ),
}
_COMPILED = [
    (re.compile(f"(?:{pattern})".replace("TEXT", r"\\(?:text|mathrm) ?\{ ?")), new)
    for pattern, new in _RULES.items()
]
_DEGREES = re.compile(r"(\d+(?:\.\d+)?) ?\^\\circ ?")
_CHINESE = re.compile("[\u3000-\u9fff\uff00-\uffef]+")
_CODE_FUNCTION = re.compile(
    r"(?<![\\A-Za-z])(a?(?:sin|cos|tan)h?|sec|csc|cot|log|ln|exp|sqrt)(?=\(|_| [\w(])"
)
_CODE = re.compile(rf"\*\*|\bpi\b|{_CODE_FUNCTION.pattern}")
_IN_BRACKETS = re.compile(r"(\^|\\sqrt)\(((?:[^()]|\((?:[^()]|\([^()]*\))*\))*)\)")


def without_frame(text: str) -> str:
    r"""Return the text without blanks, boxes and `$…$`, `\(…\)` or `\[…\]` around all of it."""
    text, before = text.translate(_PLAIN).strip(), None
    text = _OTHER_DIGIT.sub(lambda digit: str(int(digit[0])), text)
    while text != before and len(text) <= _MAX_CHARS:
        before = text
        box = _BOX.fullmatch(text)
        if box and is_balanced(inside := box[box.lastindex or 0]):
            text = inside.strip()
        if re.fullmatch(r"[A-Za-z ,;.^]*", _MATH_MODE.sub("", text)):
            text = _MATH_MODE.sub(lambda math: math["a"] or math["b"] or math["c"], text).strip()
    return text


def normal_form(answer: str) -> str:
    r"""Return the answer in a form in which equal strings are surely equal answers.

    Differences without a meaning are undone: a box in the box, `$…$` and `\(…\)`, a final full
    stop, styles, `\dfrac`, `10{,}000`, Unicode signs, digits of any script, `1.5e3`, `€5` for
    `5\text{euro}`, `5 percent`, `\{x | x > 1\}`, and code: `2**(1/4)`.
    """
    form = _BEHIND.sub("", without_frame(answer)).strip()
    if len(form) > _MAX_CHARS:
        return " ".join(form.split())
    form = _SIGN.sub(lambda it: _TEX[it[0]] + " " * (it[0][0] not in "\\{"), form)
    for pattern, new in _COMPILED:
        form = pattern.sub(new, form)
    form = form.strip()
    if re.search(r"\\(?:sin|cos|tan|cot|sec|csc)(?![a-z])", form):
        form = _DEGREES.sub(r"\\frac{\1\\pi}{180}", form)
    if "\\" not in form and _CODE.search(form):  # `2**(x/4)`, `sqrt(3)*pi`, `exp(x)`
        form, before = re.sub(r"\bpi\b", r"\\pi ", form.replace("**", "^")), None
        form = _CODE_FUNCTION.sub(lambda f: "\\" + re.sub("^a(?=[sct])", "arc", f[1]), form)
        while form != before:
            before, form = form, _IN_BRACKETS.sub(r"\1{\2}", form)
        form = form.replace("*", r"\cdot ")
    if r"\text" not in form:
        form = _CHINESE.sub(r"\\text{\g<0>}", form)
    # Spaces beside letters, digits and commas mean something: `1 1/2`, `x y`, `1, 200`.
    return re.sub(r"(?<![0-9A-Za-z,]) | (?![0-9A-Za-z])", "", " ".join(form.split()))


def _numbers_and_words(text: re.Match[str]) -> str:
    r"""Return a text with its numbers outside: `6:00\text{ AM}` for `\text{6:00 AM}`."""
    is_applied = text.start() == 0 or _ARGUMENT.match(text.string, text.end())
    if (function := _FUNCTION.fullmatch(text[1])) and is_applied:
        return rf"\{function[1]} "
    if _UNIT.fullmatch(text[0]):
        return rf"\text{{{text[1]}}}"
    if not _LETTERS.search(text[1]):
        return f"{{{text[1]}}}"
    pieces = _NUMBER.split(text[1])
    pieces[::2] = [rf"\text{{{words}}}" if words.strip() else words for words in pieces[::2]]
    return "".join(pieces)


def words(answer: str) -> str | None:
    r"""Return an answer of words, such as `\text{Evelyn}` or `yes`, in lower case, else None.

    A parser reads words as products, so that `seat` equals `east`. `xy` stays one.
    """
    form = without_frame(answer).removesuffix(".")
    wrapped = TEXT.fullmatch(form) or re.fullmatch(_OLD_FONT, form)
    content = " ".join((wrapped[1] if wrapped else form).removesuffix(".").split())
    content = re.sub(r"^(?:an?|the) (?=\w{3})|(?<=\w{3})s$", "", content.casefold())
    letters = content.translate(str.maketrans("", "", " -'"))
    fewest = 2 if wrapped or form.lower() in ("no", "on") else 3
    return content if letters.isalpha() and len(letters) >= fewest else None


def is_balanced(text: str) -> bool:
    r"""Return whether every brace but `\{` is matched, and no lone backslash stands at the end."""
    depth = 0
    for token in _BRACE.finditer(text):
        depth += (token[0] == "{") - (token[0] == "}")
        if depth < 0 or token[0] == "\\":
            return False
    return depth == 0


def has_unseen_characters(text: str) -> bool:
    """Return whether some character is a control character, a line break or an invisible mark."""
    # Control, zero-width and bidirectional marks, lone surrogates, separators
    return any(unicodedata.category(one) in ("Cc", "Cf", "Cs", "Zl", "Zp") for one in text)


def why_not_compared(answer: str, gold: str = "") -> str | None:
    """Return why a normal form is not handed to a parser; None if it may be."""
    if len(answer) > MAX_TRUTH_CHARS:
        return "length"
    if not is_balanced(answer) or has_unseen_characters(re.sub(r"[\n\t]", " ", answer)):
        return "no formula"
    depths = accumulate((one in "([{") - (one in ")]}") for one in answer)
    if max(depths, default=0) > 12:
        return "nesting"
    if _HUGE.search(answer):
        return "exponent"
    # a policy must not choose costly operations
    is_costly = _COSTLY.search(answer) and not _COSTLY.search(gold)
    return "costly operation" if is_costly or _FACTORIAL.search(answer) else None
