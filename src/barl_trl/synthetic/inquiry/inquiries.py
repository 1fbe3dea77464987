"""The four games: a number, a code of coloured pegs, a word, an animal."""

from collections import Counter
from functools import cache
from itertools import product
from pathlib import Path

from .inquiry import Inquiry

_ASSETS = Path(__file__).parents[2] / "assets"
_COLOURS = "ABCDEFGH"


@cache
def number(count: int = 16, *, error_rate: float = 0.0) -> Inquiry:
    """Return the game of a number from 1 to `count`: is it at least another one?"""
    numbers = tuple(map(str, range(1, count + 1)))
    return Inquiry(
        message=f"Which number from 1 to {count} is it?",
        hypotheses=numbers,
        questions=numbers[1:],
        judge=lambda question, secret: "yes" if int(secret) >= int(question) else "no",
        error_rate=error_rate,
    )


@cache
def code(length: int = 3, colours: int = 6) -> Inquiry:
    """Return the game of a code of coloured pegs, as in Mastermind; a question is a guess.

    The reply counts the pegs that are right (black), and those whose colour is right elsewhere
    (white).
    """
    if not 1 <= colours <= len(_COLOURS):
        raise ValueError(f"colours must be 1 to {len(_COLOURS)}, got {colours}.")
    codes = tuple(map("".join, product(_COLOURS[:colours], repeat=length)))

    def pegs(guess: str, secret: str) -> str:
        black = sum(a == b for a, b in zip(guess, secret, strict=True))
        return f"{black} black, {(Counter(guess) & Counter(secret)).total() - black} white"

    colours_of = f"{length} letters from A to {_COLOURS[colours - 1]}"
    return Inquiry(f"Which code of {colours_of} is it?", codes, codes, pegs)


@cache
def words(count: int = 300) -> Inquiry:
    """Return the game of `count` words of our list of five letters each; a question is one of them.

    The reply marks each letter: `+` in its place, `?` in the word elsewhere, `-` not in it.
    """
    listed = (_ASSETS / "words.txt").read_text(encoding="utf-8").split()
    if not 1 <= count <= len(listed):
        raise ValueError(f"count must be 1 to {len(listed)}, got {count}.")
    step = len(listed) / count  # spread over the alphabet
    chosen = tuple(listed[int(n * step)] for n in range(count))
    return Inquiry("Which word of five letters is it?", chosen, chosen, letter_marks)


def letter_marks(guess: str, secret: str) -> str:
    """Return the marks of a guess: `+` in its place, `?` elsewhere in the secret, `-` not in it.

    A letter is marked as often as the secret has it, first where it is in its place.

    Example:
        >>> letter_marks("geese", "elegy")
        '??+--'
    """
    left = Counter(b for a, b in zip(guess, secret, strict=True) if a != b)
    marks = []
    for a, b in zip(guess, secret, strict=True):
        is_elsewhere = a != b and left[a] > 0
        left[a] -= is_elsewhere
        marks.append("+" if a == b else "?" if is_elsewhere else "-")
    return "".join(marks)


@cache
def animals(*, error_rate: float = 0.1) -> Inquiry:
    """Return the game of 64 animals, with the questions of a table that we made."""
    lines = (_ASSETS / "animals.tsv").read_text(encoding="utf-8").splitlines()
    (_, *questions), *table = (line.split("\t") for line in lines)
    replies_of = {name: dict(zip(questions, replies, strict=True)) for name, *replies in table}
    return Inquiry(
        message="Which animal is it?",
        hypotheses=tuple(replies_of),
        questions=tuple(questions),
        judge=lambda question, animal: "yes" if replies_of[animal][question] == "1" else "no",
        error_rate=error_rate,
    )
