"""The default grader, on pairs of answers. The real parser in its real processes."""

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barl_trl.graders import get_grader, verify
from barl_trl.graders.normal_form import normal_form
from barl_trl.graders.processes import compare

from ..paths import ROOT

OWN_CASES = ROOT / "tests" / "cases"
PUBLIC_CASES = ROOT.parent / "shared" / "verify_cases.jsonl"

MISSED = {("3-4i", r"\overline{3+4i}")}
ACCEPTED = {(r"\overrightarrow{AB}", r"\overrightarrow{BA}")}  # a product of letters has no order
DISPUTED = {"1.22", "z = 3+3 = 2", r"x=1/3\approx1.3"}  # labelled as right answers


def rows(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


CASES = {name: rows(OWN_CASES / f"{name}.jsonl") for name in ("answers", "kinds", "held_out")}
FAMILIES = [
    pytest.param(name, family, marks=[pytest.mark.slow] if name != "answers" else [])
    for name, cases in CASES.items()
    for family in sorted({case["family"] for case in cases})
]


@pytest.mark.parametrize(("name", "family"), FAMILIES)
def test_our_own_cases(name, family):
    labels = {
        (case["gold"], case["answer"]): case["equivalent"]
        for case in CASES[name]
        if case["family"] == family
    }
    verdicts = get_grader("math_verify").verify_all(labels)
    wrong = {pair for pair, verdict in verdicts.items() if verdict.correct != labels[pair]}
    assert wrong <= MISSED


@pytest.mark.slow
def test_answers_as_models_write_them():
    cases = rows(OWN_CASES / "models.jsonl")
    labels = {(case["gold"], case["answer"]): case["equivalent"] for case in cases}
    verdicts = get_grader("math_verify").verify_all(labels)
    accepted = {pair for pair, verdict in verdicts.items() if verdict and not labels[pair]}
    right = sum(verdict.correct == labels[pair] for pair, verdict in verdicts.items())
    assert accepted <= ACCEPTED
    assert right / len(labels) >= 0.97


@pytest.mark.skipif(not PUBLIC_CASES.exists(), reason="the public pairs are not in the package")
def test_pairs_of_public_suites():
    cases = [
        case
        for case in rows(PUBLIC_CASES)
        if "hardverify" not in case["source"].lower() and case.get("answer_protocol", True)
        if case["answer"] not in {None, *DISPUTED} and case["gold_bare"] is not None
    ]
    pairs = [(case["gold_bare"], case["answer"]) for case in cases]
    judged = get_grader("math_verify").verify_all(pairs)
    verdicts = [judged[pair].correct for pair in pairs]
    right = sum(v == case["expected"] for v, case in zip(verdicts, cases, strict=True))
    accepted = sum(v and not case["expected"] for v, case in zip(verdicts, cases, strict=True))
    assert len(cases) == 160
    assert right / len(cases) >= 0.95
    assert accepted / len(cases) <= 0.005


@pytest.mark.parametrize(
    ("gold", "answer", "correct", "reason"),
    [
        ("18", "$18$", True, "equal strings"),
        (r"\text{Evelyn}", "evelyn", True, "words"),
        (r"\text{seat}", r"\text{east}", False, "words"),
        ("B", "(b)", True, "choices"),
        ("B", r"\textbf{(B)}\ 20", True, "choices"),
        ("B", "C = B", False, "choices"),
        ("B", r"A \approx B \approx C", False, "choices"),
        ("2A_{16}", "A2_{16}", False, "bases"),
        ("6:15", "12:30", False, "times"),
        ("1/2", "0.5", True, "numbers"),
        (r"2\sqrt{3}", r"\sqrt{12}", True, "parser"),
        (r"k\pi, k\in\mathbb{Z}", r"n\pi\ (n\in\mathbb{Z})", True, "equal strings"),
        (r"k\pi, k\in\mathbb{Z}", r"n\pi, n\in\mathbb{N}", False, "parser"),
        ("1/3", "0.333...", True, "numbers"),
        (r"\log_2 8", "3", True, "parser"),
        ("6", "5=6", False, "numbers"),
        ("5", r"5\text{ million}", False, "words"),
        ("1", "9^{9^{9^9}}", False, "answer refused: exponent"),
        ("3", r"\sum_{k=1}^2 k", False, "answer refused: costly operation"),
        (r"\sum_{k=1}^n k", r"\frac{n(n+1)}{2}", True, "parser"),
        ("1", "", False, "empty"),
        ("", "", False, "empty"),
        ("$$", r"\,", False, "empty"),
    ],
)
def test_a_verdict_says_what_decided(gold, answer, correct, reason):
    assert verify(gold, answer) == (correct, reason)
    assert bool(verify(gold, answer)) is correct


def test_a_decimal_comma_is_known_beside_the_same_number_with_a_point():
    assert verify("1000.99", "1000,99") == (True, "numbers")
    assert not verify("1.500", "1,500"), "three digits are a group of thousands"
    assert not verify("1.23", "1,22")
    assert not verify("1000,99", "1000.99"), "two numbers"


def test_the_truth_is_the_first_argument():
    assert verify("x=5", "5")
    assert not verify("(3,5)", r"\{5,3\}")


@given(st.text(max_size=30))
@settings(max_examples=50)
def test_an_answer_is_equivalent_to_itself_unless_it_is_empty(answer):
    assert bool(verify(answer, answer)) == bool(normal_form(answer))


@given(st.integers(-999, 999), st.integers(1, 99), st.integers(-999, 999), st.integers(1, 99))
@settings(max_examples=25)
def test_numbers_are_judged_as_the_parser_judges_them(a, b, c, d):
    plain = verify(f"{a}/{b}", f"{c}/{d}")
    assert plain.correct == (a * d == b * c)
    if a:  # the denominator of 0 may be any
        parsed = compare(f"{a}/{b}", rf"\frac{{{c}}}{{{d}}}")
        assert plain.correct == (parsed == "equal")


def test_an_answer_too_long_for_the_parser_is_compared_as_a_string():
    long = "12+" * 180 + "x"
    assert verify(long, long.replace("+", " + ")) == (True, "equal strings")
