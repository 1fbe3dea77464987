"""How the default grader finds the answer in a completion: in its last box, or in statements."""

import re
from typing import Literal, get_args

from .normal_form import is_balanced

Extraction = Literal["boxed", "stated", "last_number"]
EXTRACTIONS: tuple[Extraction, ...] = get_args(Extraction)

_BOX_OR_BRACE = re.compile(r"(\\(?:boxed|fbox)\s*+\{)|\\.|[{}]", re.DOTALL)

_END = r"[.?](?=[\s*\"')]|\Z)|\n|</|<\||\\[)\]]|,?\s(?:because|since|which|so|as|but)\b"
_WHOLE = (  # nothing in these ends a statement
    r"\$\$[^$]++\$\$|\$(?!\s)[^$\n]++(?<!\s)\$(?!\d)|\$ [^$\n]++\$"
    r"|\\\((?:(?!\\[()]).)++\\\)|\\\[(?:(?!\\[][]).)++\\\]"
    r"|\{(?:[^{}\n]|\{[^{}\n]*+\})*+\}|\\[^]()[]"
)
_ASKED = r"\banswers?\b\**+(?:\s++(?:to|of|for)\b[^.:\n]{0,60}?)?"
_IS = r"(?:\s++(?:is|are)\b|\s*+[:=]|(?<=\*\*)[ \t]*+\n)[\s:*]*+"
_STATEMENTS = {
    re.compile(pattern, re.DOTALL | re.IGNORECASE): takes_words
    for pattern, takes_words in (
        (rf"{_ASKED}{_IS}((?:{_WHOLE}|(?!{_END}|\banswers?\b).)*+)", True),
        (r"(?<!#)####(?!#)([^\n]*+)", False),
        (r"<answer>((?:(?!</?answer>).)*+)</answer>", True),
        (r"(?<![\w*])\*\*(?!\s)([^*\n]++)(?<!\s)\*\*", False),
        (rf"(?<!\\)\\(?:boxed|fbox)(?![A-Za-z])[ \t]*+(?!\{{)((?:(?!{_END}|\$).)*+)", False),
    )
}
"""Patterns that state an answer, in the order of their use, and whether the answer may be words."""

_VALUE = re.compile(  # no label of a list, and no word before the first digit
    r"[$\\]|(?!\w+[.):](?:\s|\Z))(?:\\[A-Za-z]++|(?!\\[A-Za-z]|[^\W\d_]{2}).)*?(?:\d|\Z)", re.DOTALL
)
_MATH = re.compile(r"\A(?:\\[([]((?:(?!\\[][()]).)*+)\\[])]|\$\$?([^$]*+)\$\$?)\Z", re.DOTALL)
_NUMBER = re.compile(
    r"(?:(?<![\w)])-)?(?<![\w.])(?:\d++(?:,\d{3}(?!\d))*+(?:\.\d++)?|\.\d++)(?:/\d++)?"
)


def extract_answer(text: str, extraction: Extraction = "boxed") -> str | None:
    r"""Return the answer of a completion, or None. Time is linear in the text.

    `"boxed"`: the last `\boxed{…}` or `\fbox{…}`, raw, perhaps empty; of nested ones the outermost
    that is closed. If the last is never closed there is no answer. `"stated"`: where no box has
    content, the first of these kinds that there is: "the answer is 42" ("final answer is",
    "answer: 42"), `#### 42`, `<answer>42</answer>`, `**42**`, `\boxed 42`. The last of a kind
    counts, a number or formula before words. `"last_number"`: where nothing is stated either, the
    last number. What stands before the last `</think>` counts only where nothing stands behind it.

    Example:
        >>> extract_answer(r"First \boxed{1}, no: \boxed{\frac{1}{2}}.")
        '\\frac{1}{2}'
    """
    thought, _, behind = text.rpartition("</think>")
    for part in (behind, thought):
        box, is_open = _last_box(part)
        if is_open or box or (box is not None and extraction == "boxed"):
            return box
        if extraction != "boxed" and (stated := _stated(part)) is not None:
            return stated
    numbers = _NUMBER.findall(behind) or _NUMBER.findall(thought)
    return numbers[-1] if numbers and extraction == "last_number" else None


def _last_box(text: str) -> tuple[str | None, bool]:
    """Return the content of the last box if it is closed, and whether it is not."""
    answer: tuple[int, int] | None = None
    is_open = False
    open_braces: list[int | None] = []  # where the content of a box starts; None for a plain brace
    for token in _BOX_OR_BRACE.finditer(text):
        if token[1]:
            open_braces.append(token.end())
            answer, is_open = None, True
        elif token[0] == "{":
            open_braces.append(None)
        elif token[0] == "}" and open_braces:
            start = open_braces.pop()
            # A box that closes now was opened before the last box, or is the last: it contains it.
            if start is not None:
                answer, is_open = (start, token.start()), False
    return None if answer is None else text[slice(*answer)].strip(), is_open


def _stated(text: str) -> str | None:
    """Return what is stated last, of the first kind of statement that occurs."""
    for pattern, takes_words in _STATEMENTS.items():
        statements = [bare for raw in pattern.findall(text) if (bare := _bare(raw))]
        # "the area is 42" states what follows "is"
        pairs = [(_bare(whole.rpartition(" is ")[2]), whole) for whole in statements]
        forms = [form for pair in pairs for form in pair]
        answers = [form for form in forms if _VALUE.match(form)] or statements * takes_words
        if answers:
            return answers[-1]
    return None


def _bare(text: str) -> str:
    """Return a statement without the marks around it, "" if its braces are not balanced."""
    text = text.strip(' \t\r\n*`":').rstrip(" .,;*")
    text = _MATH.sub(r"\1\2", text).strip().rstrip(" .,;")
    return text if is_balanced(text) else ""
