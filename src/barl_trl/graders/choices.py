"""Multiple choice: options stand behind the problem as `A. text`, and the answer is a letter."""

import re
from collections.abc import Mapping, Sequence
from itertools import count
from string import ascii_uppercase as LETTERS

from .normal_form import TEXT, normal_form

COLUMN = "lettered_options"
"""Column with the texts of a row's options, in the order of their letters."""

_LABEL = re.compile(r"\(?([a-z])(?:\)|[.:]|\) *[.:])? *(.*)", re.DOTALL)


def with_options(problem: str, options: Sequence[str]) -> str:
    r"""Return a problem with its options behind it, if they do not stand in it already.

    Example:
        >>> with_options("Which is prime?", ["4", "5"])
        'Which is prime?\n\nA. 4\nB. 5'
    """
    lettered = [*zip(LETTERS, options, strict=False)]
    if all(re.search(rf"\b{a}[.:)\]]+ *{re.escape(text)}", problem) for a, text in lettered):
        return problem
    return f"{problem}\n\n" + "\n".join(f"{letter}. {text}" for letter, text in lettered)


def chosen(answer: str | None, options: Sequence[str] | None) -> str | None:
    """Return the letter of the option that an answer is, by its letter, its text or both.

    What is none of the options stays as it is, and without options any answer does.

    Example:
        >>> [chosen(text, ["4", "A prime"]) for text in ("(b)", "a prime", "B: A prime", "A: 5")]
        ['B', 'B', 'B', 'A: 5']
    """
    if not options or answer is None:
        return answer
    form, texts = _form(answer), [_form(text) for text in options]
    labelled = _LABEL.fullmatch(form)
    place = LETTERS.find(labelled[1].upper()) if labelled else len(texts)
    if labelled and place < len(texts) and labelled[2] in ("", texts[place]):
        return LETTERS[place]
    return LETTERS[texts.index(form)] if texts.count(form) == 1 else answer


def _form(text: str) -> str:
    bare = " ".join(TEXT.sub(r" \1 ", normal_form(text)).split()).casefold()
    return bare.rstrip(".").strip()


def letters_of(
    answers: Sequence[str | None], options: Sequence[Mapping[str, str] | None]
) -> list[str | None]:
    """Return the letter of the option that each row's cell names; None where it names none.

    Cells hold labels, letters, numbers from 0, texts of options, or numbers from 1, whichever reads
    the most rows. `options` has the label of each option -> its text.
    """
    readings: list[list[str | None]] = [[], [], [], [], []]
    for answer, texts in zip(answers, options, strict=True):
        wanted, texts = (answer or "").strip().casefold(), texts or {}
        kinds = texts, LETTERS, count(0), texts.values(), count(1)
        for letters, names in zip(readings, kinds, strict=True):
            pairs = zip(LETTERS, names, texts, strict=False)  # no more than there are options
            found = [letter for letter, name, _ in pairs if str(name).strip().casefold() == wanted]
            letters.append(found[0] if len(found) == 1 else None)
    best = min(readings, key=lambda letters: letters.count(None))
    for place, (answer, texts) in enumerate(zip(answers, options, strict=True)):
        letter = chosen(answer, [*(texts or {}).values()])  # `(B) 5`
        best[place] = best[place] or (letter if letter != answer else None)
    return best
