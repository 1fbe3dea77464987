"""The default way to find the answer in a completion: its last box."""

import re

_BOX_OR_BRACE = re.compile(r"(\\(?:boxed|fbox)\s*+\{)|\\.|[{}]", re.DOTALL)


def extract_answer(text: str) -> str | None:
    r"""Return the raw inner string of the last `\boxed{…}` or `\fbox{…}`, blanks around it removed.

    Braces are balanced and escapes respected (`\{` is no brace, `\\boxed` is a line break and a
    word). The last box command decides: if it is never closed there is no answer, not an earlier
    one. If it is inside other boxes, the outermost of them that is closed is the box. `\boxed`
    without a brace is no box. Time is linear in the text.

    Args:
        text: A completion.

    Returns:
        The answer, which may be empty; None without a (closed) box.

    Example:
        >>> extract_answer(r"First \boxed{1}, no: \boxed{\frac{1}{2}}.")
        '\\frac{1}{2}'
        >>> extract_answer(r"First \boxed{1}, no: \boxed{\frac{1}{2}") is None
        True
    """
    answer: tuple[int, int] | None = None
    open_braces: list[int | None] = []  # where the content of a box starts; None for a plain brace
    for token in _BOX_OR_BRACE.finditer(text):
        if token[1]:
            open_braces.append(token.end())
            answer = None
        elif token[0] == "{":
            open_braces.append(None)
        elif token[0] == "}" and open_braces:
            start = open_braces.pop()
            # A box that closes now was opened before the last box, or is the last: it contains it.
            answer = answer if start is None else (start, token.start())
    return None if answer is None else text[slice(*answer)].strip()
