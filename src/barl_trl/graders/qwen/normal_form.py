"""How the Qwen2.5-Math evaluation rewrites an answer before it compares."""

import re

_MAX_NORMALISED = 2048
_MAX_PASSES = 4

NAME = r"\A[^\W\d_][A-Za-z' ]?=(?!=)(?=[^=]*\Z)"
_UNIT = (
    r"(?<![\w\\])(?:acre|cc|cm|cubic|day|deg|degree|dm|feet|ft|gal|gallon|gm|hectare|hour|hr|inch"
    r"|inche|kg|km|kmh|kmph|lb|liter|litre|meter|metre|mile|min|minute|mm|month|mph|mtr|ohm|per"
    r"|percent|rs|rupee|sec|second|sq|square|unit|yard|year|yr)s?(?!\w)|(?<=[0-9])\s+[ghlms]\Z"
)
_SPELLED = (
    "zero|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|thirteen|fourteen|fifteen"
    "|sixteen|seventeen|eighteen|nineteen|twenty"
)
# Applied in this order: what one uncovers, a later one or the next pass may look for.
_RULES = (
    (r"\n|\.+\Z|\\!|\\(?:left|right|mathbf)(?![A-Za-z])|\\mbox\{[^{}]*\}", ""),
    (r"(?<!\\)\\(?:[,;: ]|q?quad(?![A-Za-z]))", " "),
    (r"bmatrix|(?<=end\{)array|(?<=begin\{)array\}\{[^{}]*(?=\})", "pmatrix"),
    (r"[dt]frac", "frac"),
    (r"\\([nlg]e)q(?![A-Za-z])", r"\\\1"),
    (r"(?<!\\)\\([{}])", r"\1"),
    (r"(?:\s*\\text\{[^{}]*\}(?:\^\{[^{}]*\})?)+\Z", ""),
    (r"\\text\{([^{}]*)\}", r" \1 "),
    (_UNIT, ""),
    (rf"(?ai)\A(?:{_SPELLED})\Z", lambda word: str(_SPELLED.split("|").index(word[0].lower()))),
    (r"\A[^i]+\Z", lambda form: form[0].replace("j", "i")),  # engineers' imaginary unit
    (r"\^(?:\\circ(?![A-Za-z])|\{\\circ\})|\\?[$%]|(?<!\\)\\[()]", ""),
    (r",?\s*\band\b\s*", ","),
    (r"(?:\A|(?<=[,;({[])|(?<=[,;({[] )|(?<=or ))[xyz](?:=(?!=)|\\(?:in|to)(?![A-Za-z]))", ""),
    (r"\\emptyset", "{}"),
    (r"\(-\\infty, ?\\infty\)", r"\\mathbb{R}"),
    (r"(\A|[\s{])\.(?=[0-9])", r"\g<1>0."),
    (r"(?<![\\A-Za-z])inf(?:inity)?(?![A-Za-z])", r"\\infty"),
    (r"(?<=[0-9])\.0*(?![0-9])", ""),
    (NAME, ""),
    (r"\\sqrt\s*([0-9]+|[A-Za-z])", r"\\sqrt{\1}"),
    (r"\A(-?[0-9]+)\s+([0-9]+)/([0-9]+)\Z", r"\1\\frac{\2}{\3}"),
    (r"([_^])([0-9A-Za-z]) (?=[0-9])", r"\1{\2}"),
    (r"(?<=[0-9]) (?=[0-9]{3}(?![0-9]))", ""),
    (r"(\\[A-Za-z]+ (?=[A-Za-z])|(?<=[0-9]) (?=[0-9]))| ", r"\1"),
    (r"\\frac([0-9A-Za-z])(?=\{)", r"\\frac{\1}"),
    (r"\\frac([0-9A-Za-z])([0-9A-Za-z])", r"\\frac{\1}{\2}"),
    (r"\A(-?[0-9]+)/(-?[0-9]+)\Z", r"\\frac{\1}{\2}"),
    # as a program writes it, which a parser of LaTeX would misread
    (r"(?<![\\A-Za-z])(?=(?:sqrt|pi|sin|cos|tan|ln|log|exp)(?![A-Za-z]))", r"\\"),
    (r"\*\*", "^"),
    (r"\^(-(?:[0-9]+|[A-Za-z]))", r"^{\1}"),
    (r"(\^|\\sqrt)\(((?:[^()]|\([^()]*\))*)\)", r"\1{\2}"),
)


def normal_form(answer: str) -> str:
    """Return the answer rewritten until nothing changes, but never to nothing, if not too long."""
    form, before = answer.strip(), ""
    for _ in range(_MAX_PASSES if len(form) <= _MAX_NORMALISED else 0):
        for pattern, replacement in _RULES:
            form = " ".join(re.sub(pattern, replacement, form).split()) or form
        if form == before:
            break
        before = form
    return form
