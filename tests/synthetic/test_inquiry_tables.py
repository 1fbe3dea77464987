"""The words and the animals that games of inquiry draw their secrets from."""

import re
from itertools import combinations

from tests.paths import ROOT

ASSETS = ROOT / "src" / "barl_trl" / "assets"


def table():
    """Return the questions, and each animal's answers by its name."""
    lines = (ASSETS / "animals.tsv").read_text(encoding="utf-8").splitlines()
    (corner, *questions), *rows = [line.split("\t") for line in lines]
    assert corner == "animal"
    names = [name for name, *_ in rows]
    assert names == sorted(set(names))
    return questions, {name: tuple(answers) for name, *answers in rows}


def differences(one, other):
    return sum(a != b for a, b in zip(one, other, strict=True))


def test_there_are_300_distinct_sorted_words_of_five_letters():
    text = (ASSETS / "words.txt").read_text(encoding="utf-8")
    words = text.splitlines()
    assert text == "".join(f"{word}\n" for word in words)
    assert len(words) == 300 and words == sorted(set(words))
    assert all(re.fullmatch("[a-z]{5}", word) for word in words)


def test_every_animal_answers_every_question_yes_or_no():
    questions, animals = table()
    assert len(questions) == len(set(questions)) == 40 and len(animals) == 64
    assert all(re.fullmatch(r"[A-Z][A-Za-z, -]+\?", question) for question in questions)
    assert all(re.fullmatch("[a-z]+( [a-z]+)?", name) for name in animals)
    assert all(len(row) == 40 and set(row) <= {"0", "1"} for row in animals.values())


def test_any_two_animals_differ_in_three_questions():
    _, animals = table()
    close = [
        (one, other)
        for one, other in combinations(animals, 2)
        if differences(animals[one], animals[other]) < 3
    ]
    assert not close


def test_every_question_splits_the_animals_in_its_own_way():
    questions, animals = table()
    columns = dict(zip(questions, zip(*animals.values(), strict=True), strict=True))
    assert not [
        question for question, column in columns.items() if not 5 <= column.count("1") <= 59
    ]
    same = [
        (one, other)
        for one, other in combinations(questions, 2)
        if differences(columns[one], columns[other]) in {0, len(animals)}
    ]
    assert not same
