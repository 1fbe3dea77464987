"""The normal form of an answer: equal forms are equal answers, and a parser reads them."""

import re
import unicodedata

from .strings import is_balanced

_MAX_CHARS = 4096
"""Longer answers are changed in their spaces alone: some patterns take quadratic time."""

TEXT = re.compile(
    r"\\(?:(?:text|math)(?:bf|it|rm|sf|tt)|text(?:normal)?|emph|mbox|hbox|bold(?:symbol)?)"
    r"\s*\{([^{}\\]*)\}"
)

_PLAIN_CHARS = {
    **{n: n - 0xFEE0 for n in range(0xFF01, 0xFF5F)},
    0x3002: ".",
    0x3001: ",",
    ord("~"): " ",
}
"""Full-width characters and blanks: `－5`, `（1，2）`, `5~cm`."""
_SCRIPTS = re.compile("([⁰¹²³⁴-ⁿ]+)|([₀-₎]+)|([¼-¾⅐-⅞])")

# Frames
_MATH_MODE = re.compile(
    r"(?<!\\)(?:(\$\$?)(?P<a>[^$]+)(?<!\\)\1|\\\((?P<b>.+?)\\\)|\\\[(?P<c>.+?)\\\])", re.DOTALL
)
_BEHIND = re.compile(r"(?:(?<!\.)\.|[,;]|\\text\{\.\})$|^=(?!=)")
_BESIDE_MATH = re.compile(r"[A-Za-z ,;.^]*")
_BOX = re.compile(r"\\(?:[a-z]*boxed|f(?:rame)?box)\s*\{(.*)\}|\*\*([^*]+)\*\*", re.DOTALL)

# Words
_OLD_FONT = re.compile(r"\{ ?\\(?:rm|bf|it|sf) +([^{}\\]*)\}")
_NUMBER = re.compile(r"(?<!\^)(?<!\^-)(\d[\d.,:]*\d|\d|,)")
_YES_OR_NO = re.compile(r"(yes|no)[,.;:—-](?!.*\b(?:yes|no)\b)\D*", re.IGNORECASE | re.DOTALL)
_ARTICLE = re.compile(r"(?:an?|the) (?=\w{3})")
_LETTERS = re.compile(
    r"[\u3000-\u9fff]|\d [mgshlLACFKNJWV]$|[^\W\d_]{2}|[^\W\d_][. ][^\W\d_]|[^\W\d_]/"
)
_TEXT_OF_UNITS = tuple(
    (re.compile(pattern.replace("TEXT", r"\\(?:text|mathrm) ?\{ ?")), new)
    for pattern, new in {
        r"(TEXT[^{}]*\^)\{(-?\d)\}": r"\1\2",  # m/s^{2}
        r"\\frac ?\{ ?TEXT([^{}]*)\} ?\} ?\{ ?TEXT([^{}]*)\}([^{}]*)\}": r"\\text{\1/\2}\3",
        r"(TEXT[^{}]*)\} ?/ ?TEXT": r"\1/",
        r"(TEXT[^{}]*)\} ?\\cdot ?TEXT": r"\1 ",
        r"(TEXT[^{}\\]*?) ?\\cdot(?![a-z]) ?": r"\1 ",
    }.items()
)
_UNIT = re.compile(r"\\(?:text|mathrm|mbox)\{ ?[mgshlLACFKNJWV] ?\}")
_QUANTITY = re.compile(r"(?:[\d}\s]|\\circ|\\[,;: ])$")
_FUNCTION = re.compile(r" *((?:arc)?(?:sin|cos|tan)|cot|sec|csc|log|ln|exp) *")
_CHINESE = re.compile("[\u3000-\u9fff\uff00-\uffef]+")
_SHORT_WORDS = frozenset({"no", "on"})
_MEANINGS = {
    re.compile(said): meant
    for said, meant in {
        "dne|not exist|limit does not exist": r"\text{does not exist}",
        "infinite|infinite(?:ly many)? solutions": r"\text{infinitely many}",
        "none|empty set|(?:there (?:is|are) )?no(?: real)? solutions?(?: exists?)?": r"\emptyset",
        "(?:all|any|every|set of all) reals?(?: numbers?)?": r"\mathbb{R}",
        "(?:positive )?infinity": r"\infty",
    }.items()
}
_MONEY = {"$": "dollar", "€": "euro", "£": "pound", "¥": "yen"}
_AMOUNT = re.compile(r"([+-]?) ?\\?([$€£¥]) ?([\d.].*)|([^$]*\d) ?\\?([$€£¥])")

# Characters and commands
_NAMES = r"""
    − - – - ≈ \approx π \pi ∞ \infty × \times · \cdot ⋅ \cdot ≤ \le ≥ \ge ≠ \ne → \to
    ∪ \cup ∩ \cap ∈ \in ± \pm ∓ \mp ° ^\circ º ^\circ ⁄ / ’ ' ∠ \angle
    ∅ \emptyset \varnothing \emptyset \degree ^\circ {:} : \colon : µ \mu \% %
    \dfrac \frac \tfrac \frac \cfrac \frac \lbrace \{ \rbrace \} \langle ( \rangle )
"""
_PLAIN: dict[str, str] = dict(zip(_NAMES.split()[::2], _NAMES.split()[1::2], strict=True))
_OTHER_NAME = re.compile("|".join(map(re.escape, _PLAIN)))
_ESCAPED_TWICE = re.compile(r"(?:[^\\]|\\\\)*\\\\[A-Za-z](?:[^\\]|\\\\)*")
_REPLACED = tuple(
    (re.compile(rf"(?:{pattern})"), new)
    for pattern, new in {
        r"(?<!\\)\\$": "",
        r"(?<=\d)(?:\\,|,?\\!|\{,\}) ?(?=\d{3}(?!\d))": "",  # 10{,}000
        r"\\(?:left|right|[bB]igg?[lrm]?|displaystyle|textstyle|bf|rm|it)(?![A-Za-z])\.?": "",
        r"\\(?:text)?color ?\{[a-z]+\}": "",
        r"\\(?:underline|boldsymbol|bm|mathbf|bold|vec|overrightarrow) ?(?=\{)": "",
        r"\\(begin|end)\{(?:[bB]|small)matrix\}": r"\\\1{pmatrix}",
        r"\^ ?\{ ?\\circ ?\}": r"^\\circ ",
        r"(?<=\d)[eE]([+-]?\d{1,3})(?![\w.])": r"\\times 10^{\1}",
        r"√(\d+|[A-Za-z])": r"\\sqrt{\1}",
        r"√\(((?:[^()]|\([^()]*\))*)\)": r"\\sqrt{\1}",
        r"\\sqrt ?(\[\w+\]) ?(\w)": r"\\sqrt\1{\2}",
        r"\\sqrt(\[\d*[13579]\])\{-(\d+)\}": r"(-\\sqrt\1{\2})",
        r"\\frac ?\\pi(?= ?[\d{\\])": r"\\frac{\\pi}",
        r"C_\{?(\d+)\}?\^\{?(\d+)\}?": r"\\binom{\1}{\2}",
        r"\\(?:therefore|checkmark|blacksquare|square|[lL]arge|hspace\{[^{}]*\})(?![A-Za-z])": "",
        r"\\\\\[[\d.]+ ?[a-z]{2}\]": r"\\\\",
        r"\\text\{ ?\\\$ ?([\d.,]*) ?\}": r"\\$\1",
        r"(?<=\d)\{,\}(?=\d)": ",",
        r"\+ ?/ ?-": r"\\pm ",
        r"\\(?:mathbb|Bbb) ?\{? ?([A-Z]) ?\}?|\\(R)(?![A-Za-z])": r"\\mathbb{\1\2}",
        r"(?<=[)\]]) ?U ?(?=[(\[])|\\bigcup(?![a-z])": r"\\cup ",
        r"\\(?:lor|vee)(?![a-z])|或": r"\\text{ or }",
        r"(?<![\d:.])0(?=\d:\d\d)": "",
        r"(?<![\d:.!])(\d{1,2})(?= ?(?:\\text\{ ?)?[aApP]\.? ?[mM]\b)": r"\1:00",  # 3 PM
        r"(?<=\d) x (?=10 ?\^)": r"\\times ",
        r"\( ?(?:\\(?:text|mathrm) ?\{ ?mod ?\}|mod) ?(\d+) ?\)": r"\\pmod{\1}",
        r"\\mod[ {]*(\d+)\}?": r"\\pmod{\1}",
        r"(?<=[\d}]) ?(?:\\text\{ ?)?(?:percent(?:age)?|pct)\.?(?: ?\})?$": "%",
        r"(?<=[A-Za-z])_\{1, ?2\}(?= ?=)": "",  # x_{1,2} = 1 ± 2
        r"(?<![\\\w}])[({]([0-9A-F]+)[)}](?=_)": r"\1",  # (101)_2
        r"(?:(?<=\d)|(?<=\d[A-F]))_\{(\d+)\}": r"_\1",
        r"(?<=\d) ?\\text\{ ?to ?\} ?(?=\d)": ":",
        r"(?<=\d\.)(\d{0,9})(?:\\(?:bar|dot|overline) ?\{?(\d+)\}?|\((\d+)\))": (
            r"\1\\overline{\2\3}"  # 0.(3)
        ),
        r"(?<=\.)(\d{0,9}?)(\d{1,9}?)\2{2,}(?:\\[lc]?dots|\.\.\.|…)$": r"\1\\overline{\2}",
        r"(?:[ ,;]|\\quad)*\\text\{[ ,]*and[ ,]*\}(?:[ ,]|\\quad)*|,? and ": ",",
        r"\\\{ ?\w ?(?:\\in ?\\mathbb ?\{?R\}? ?)?(?:[|:∣]|\\mid|\\vert)"  # {x | x > 1}
        r" ?([^|:]*[<>=].*|.*\\[lg]e.*)\\\}$": r"\1",
        r"\\\{ ?([^|:∣]{2,}?) ?(?:[|:∣]|\\mid|\\vert)"  # {k\pi | k \in Z}
        r" ?(\w ?\\in ?\\mathbb ?\{?[A-Z]\}?) ?\\\}$": r"\1, \2",
    }.items()
)
_SYSTEM = re.compile(
    r"(?:\\\{ ?)?\\begin\{(cases|aligned|align\*?|array)\}(?:\{[lcr| ]+\})? ?(.*?)"
    r"[ \\,.]*\\end\{\1\}",
    re.DOTALL,
)
_GROUPED = re.compile(r"\{([^{}\\]*)\}|\\\{ ?(\([^(){}]*\)) ?\\\}")  # {1,234}, \{(1,2)\}
_PROGRESSION = re.compile(  # x = 7k - 1, k \in Z
    r"([A-Za-z]) ?= ?(\d{1,9})([a-z]) ?([+-] ?\d{1,9})?[ ,(]*\3 ?\\in ?\\mathbb ?\{?Z\}?\)?"
)
_RESIDUE = re.compile(r"(?<![\w.}])(-?\d{1,9}) *\\pmod ?\{?([1-9]\d{0,8})\}?")
_ONE_CHOICE = r"(?:\\text\{ ?)?\(?([A-J])\)?(?: ?\})?"
_CHOICES = re.compile(rf"\{{?{_ONE_CHOICE}(?:[ ,;]+{_ONE_CHOICE})+\}}?")
_SPACING = re.compile(r"(\\\\)|\\(?:[,;:! ]|q?quad(?![A-Za-z]))")
# Spaces between two digits, letters or after a comma mean something: `1 1/2`, `x y`, `1, 200`.
_IDLE_SPACE = re.compile(r"(?<![0-9A-Za-z,]) | (?![0-9A-Za-z])")
_TRIGONOMETRIC = re.compile(r"\\(?:sin|cos|tan|cot|sec|csc)(?![a-z])")
_DEGREES = re.compile(r"(\d+(?:\.\d+)?) ?\^\\circ ?")
_CODE_FUNCTION = re.compile(
    r"(?<![\\A-Za-z])(a?(?:sin|cos|tan)h?|sec|csc|cot|log|ln|exp|sqrt)(?=\(|_| [\w(])"
)
_CODE = re.compile(rf"\*\*|\bpi\b|{_CODE_FUNCTION.pattern}")
_IN_BRACKETS = re.compile(r"(\^|\\sqrt)\(((?:[^()]|\((?:[^()]|\([^()]*\))*\))*)\)")


def without_frame(text: str) -> str:
    r"""Return the text without blanks, boxes and `$…$`, `\(…\)` or `\[…\]` around all of it."""
    text, before = _SCRIPTS.sub(_script, text.translate(_PLAIN_CHARS)).strip(), None
    while text != before and len(text) <= _MAX_CHARS:
        before = text
        box = _BOX.fullmatch(text)
        if box and is_balanced(inside := box[box.lastindex or 0]):
            text = inside.strip()
        if _BESIDE_MATH.fullmatch(_MATH_MODE.sub("", text)):
            text = _MATH_MODE.sub(lambda math: math["a"] or math["b"] or math["c"], text).strip()
    return text


def _script(found: re.Match[str]) -> str:
    r"""`^2` of `²`, `_{10}` of `₁₀`, `\frac{3}{4}` of `¾`."""
    plain = unicodedata.normalize("NFKC", found[0])
    if found[3]:
        return rf"\frac{{{plain.replace('⁄', '}{')}}}"
    return ("^" if found[1] else "_") + (plain if len(plain) == 1 else f"{{{plain}}}")


def normal_form(answer: str) -> str:
    r"""Return the answer in a form in which equal strings are surely equal answers.

    Undone are differences without a meaning: a box in the box, `$…$` and `\(…\)`, a final full
    stop, sizes, styles and colours, `\dfrac`, `10{,}000`, a row without cells, Unicode signs,
    `1.5e3`, `€5` for `5\text{euro}`, `5 percent`, `\{x | x > 1\}`, and code: `2**(1/4)`.
    """
    form = _BEHIND.sub("", without_frame(answer)).strip()
    if len(form) > _MAX_CHARS:
        return " ".join(form.split())
    if _ESCAPED_TWICE.fullmatch(form):
        form = form.replace(r"\\", "\\")
    form = _OTHER_NAME.sub(lambda it: _PLAIN[it[0]] + " " * (it[0][0] not in "\\{"), form)
    form = _OLD_FONT.sub(r"\\text{\1}", form)
    for pattern, new in _TEXT_OF_UNITS:
        form = pattern.sub(new, form)
    form = TEXT.sub(_numbers_and_words, form)
    for pattern, new in _REPLACED:
        form = pattern.sub(new, form)
    form = _SPACING.sub(lambda match: match[1] or " ", form).strip()
    if (system := _SYSTEM.fullmatch(form)) and "&" not in system[2].replace("&=", ""):
        form = re.sub(r"[ ,]*\\\\ *", ", ", system[2].replace("&=", "="))
    if grouped := _GROUPED.fullmatch(form):
        form = grouped[grouped.lastindex or 0].strip()
    if "," not in form and form[:1] in ("(", "["):
        form = form.replace(";", ",")
    if _TRIGONOMETRIC.search(form):
        form = _DEGREES.sub(r"\\frac{\1\\pi}{180}", form)
    if amount := _AMOUNT.fullmatch(form):
        sign, before, number, other_number, behind = amount.groups("")
        form = rf"{sign}{number or other_number}\text{{{_MONEY[before or behind]}}}"
    if progression := _PROGRESSION.fullmatch(form):
        name, step, _, first = progression.groups("0")
        form = rf"{name}\equiv {first.replace(' ', '').lstrip('+')}\pmod{{{step}}}"
    form = _RESIDUE.sub(lambda it: rf"{int(it[1]) % int(it[2])}\pmod{{{it[2]}}}", form)
    if _CHOICES.fullmatch(form):  # ABD, as true answers have it
        return "".join(sorted(re.findall("[A-J]", form)))
    said = words(form)
    form = next((meant for found, meant in _MEANINGS.items() if found.fullmatch(said or "")), form)
    if "\\" not in form and _CODE.search(form):
        form = _tex_of_code(form)
    if r"\text" not in form:
        form = _CHINESE.sub(r"\\text{\g<0>}", form)
    return _IDLE_SPACE.sub("", " ".join(form.split()))


def _numbers_and_words(text: re.Match[str]) -> str:
    r"""`6:00\text{ AM}` of `\text{6:00 AM}`, `{5}` of `\textbf{5}`, `\sin` of `\mathrm{sin}`."""
    if function := _FUNCTION.fullmatch(text[1]):
        return rf"\{function[1]} "
    if _UNIT.fullmatch(text[0]) and _QUANTITY.search(text.string[: text.start()]):
        return rf"\text{{{text[1]}}}"
    if not _LETTERS.search(text[1]):
        return f"{{{text[1]}}}"
    pieces = _NUMBER.split(text[1])
    pieces[::2] = [rf"\text{{{words}}}" if words.strip() else words for words in pieces[::2]]
    return "".join(pieces)


def _tex_of_code(form: str) -> str:
    """Write `2**(x/4)`, `sqrt(3)*pi` and `exp(x)` as TeX."""
    form = re.sub(r"\bpi\b", r"\\pi ", form.replace("**", "^"))
    form = _CODE_FUNCTION.sub(lambda f: "\\" + re.sub("^a(?=[sct])", "arc", f[1]), form)
    before = None
    while form != before:
        before, form = form, _IN_BRACKETS.sub(r"\1{\2}", form)
    return form.replace("*", r"\cdot ")


def words(answer: str) -> str | None:
    r"""Return an answer of words, such as `\text{Evelyn}` or `yes`, in lower case, else None.

    A parser reads words as products of variables, so that `seat` equals `east`. Bare answers of two
    letters stay products.
    """
    form = without_frame(answer).removesuffix(".")
    if said := _YES_OR_NO.fullmatch(TEXT.sub(r"\1", form)):
        return said[1].casefold()
    wrapped = TEXT.fullmatch(form) or _OLD_FONT.fullmatch(form)
    content = " ".join((wrapped[1] if wrapped else form).removesuffix(".").split())
    letters = content.translate(str.maketrans("", "", " -'"))
    fewest = 2 if wrapped or form.lower() in _SHORT_WORDS else 3
    if not letters.isalpha() or len(letters) < fewest:
        return None
    return _ARTICLE.sub("", content.casefold(), count=1)
