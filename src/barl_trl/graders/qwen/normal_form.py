"""How the Qwen2.5-Math evaluation rewrites an answer before it compares (see `qwen.py`)."""

import re

_MAX_NORMALISED = 2048
_MAX_PASSES = 4

NAME = re.compile(r"\A[^\W\d_][A-Za-z' ]?=(?!=)(?=[^=]*\Z)")

# Applied in this order: what one uncovers, a later one or the next pass may look for.
_NOTATION = (
    (r"\n", ""),
    (r"\.+\Z", ""),
    (r"\\!", ""),
    (r"(?<!\\)\\(?:[,;: ]|q?quad(?![A-Za-z]))", " "),
    (r"\\begin\{array\}\{[^{}]*\}", r"\\begin{pmatrix}"),
    (r"\\end\{array\}", r"\\end{pmatrix}"),
    (r"bmatrix", "pmatrix"),
    (r"[dt]frac", "frac"),
    (r"\\(n|l|g)eq(?![A-Za-z])", r"\\\1e"),
    (r"\\(?:left|right)(?![A-Za-z])", ""),
    (r"(?<!\\)\\([{}])", r"\1"),
)
_FINAL_TEXT = r"(?:\s*\\text\{[^{}]*\}(?:\^\{[^{}]*\})?)+\Z"
_UNIT = (
    r"(?<![\w\\])(?:acre|cc|cm|cubic|day|deg|degree|dm|feet|ft|gal|gallon|gm|hectare|hour|hr|inch"
    r"|inche|kg|km|kmh|kmph|lb|liter|litre|meter|metre|mile|min|minute|mm|month|mph|mtr|ohm|per"
    r"|percent|rs|rupee|sec|second|sq|square|unit|yard|year|yr)s?(?!\w)|(?<=[0-9])\s+[ghlms]\Z"
)
_CONTENT = (
    (r"\^(?:\\circ(?![A-Za-z])|\{\\circ\})", ""),
    (r"\\?\$|(?<!\\)\\[()]", ""),
    (r",?\s*\band\b\s*", ","),
    (r"(?:\A|(?<=[,;({[])|(?<=[,;({[] )|(?<=or ))[xyz](?:=(?!=)|\\(?:in|to)(?![A-Za-z]))", ""),
    (r"\\emptyset", "{}"),
    (r"\(-\\infty, ?\\infty\)", r"\\mathbb{R}"),
    (r"\\?%", ""),
    (r"(\A|[\s{])\.(?=[0-9])", r"\g<1>0."),
    (r"(?<![\\A-Za-z])inf(?:inity)?(?![A-Za-z])", r"\\infty"),
    (r"\\mathbf(?![A-Za-z])", ""),
    (r"\\mbox\{[^{}]*\}", ""),
    (r"(?<=[0-9])\.0*(?![0-9])", ""),
    (NAME.pattern, ""),
    (r"\\sqrt\s*([0-9]+|[A-Za-z])", r"\\sqrt{\1}"),
    (r"\A(-?[0-9]+)\s+([0-9]+)/([0-9]+)\Z", r"\1\\frac{\2}{\3}"),
    (r"\s+", " "),
    (r"([_^])([0-9A-Za-z]) (?=[0-9])", r"\1{\2}"),
    (r"(?<=[0-9]) (?=[0-9]{3}(?![0-9]))", ""),
    (r"(\\[A-Za-z]+ (?=[A-Za-z])|(?<=[0-9]) (?=[0-9]))| ", r"\1"),
    (r"\\frac([0-9A-Za-z])(?=\{)", r"\\frac{\1}"),
    (r"\\frac([0-9A-Za-z])([0-9A-Za-z])", r"\\frac{\1}{\2}"),
    (r"\A(-?[0-9]+)/(-?[0-9]+)\Z", r"\\frac{\1}{\2}"),
)

_SPELLED = {
    name: str(number)
    for number, name in enumerate(
        re.findall(
            r"\w+",
            "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen"
            " fifteen sixteen seventeen eighteen nineteen twenty",
        )
    )
}


def normal_form(answer: str) -> str:
    """Return the answer rewritten until nothing changes; too long ones as they are."""
    form = answer.strip()
    if len(form) > _MAX_NORMALISED:
        return form
    for _ in range(_MAX_PASSES):
        before, form = form, _normalised_once(form)
        if form == before:
            break
    return form


def _normalised_once(form: str) -> str:
    form = _rewritten(form.strip(), _NOTATION)
    form = _unless_empty(_FINAL_TEXT, form)
    form = re.sub(r"\\text\{([^{}]*)\}", r" \1 ", form)
    form = _unless_empty(_UNIT, form)
    form = _SPELLED.get(form.strip().lower(), form)
    if "i" not in form:  # engineers' imaginary unit
        form = form.replace("j", "i")
    return _rewritten(form, _CONTENT).strip()


def _rewritten(form: str, rules: tuple[tuple[str, str], ...]) -> str:
    for pattern, replacement in rules:
        form = re.sub(pattern, replacement, form)
    return form


def _unless_empty(pattern: str, form: str) -> str:
    """Delete what matches, unless nothing else is there: `degrees` may be the answer."""
    rest = re.sub(pattern, "", form).strip()
    return rest or form
