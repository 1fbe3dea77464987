"""Verdicts on labelled pairs, what leads to them, and their properties. Real processes.

`tests/cases` has the pairs. Its `tables.jsonl` has what single functions make of a text or a pair.
"""

from fractions import Fraction
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barl_trl.graders import default, extract_answer, get_grader, qwen, released, verify
from barl_trl.graders.extraction import EXTRACTIONS
from barl_trl.graders.normal_form import (
    has_unseen_characters,
    is_balanced,
    normal_form,
    why_not_compared,
    words,
)
from barl_trl.graders.nouns import CHANGING, UNITS, apart, words_against
from barl_trl.graders.numbers import Tolerance, number
from barl_trl.graders.processes import compare
from barl_trl.hypotheses import truth_answer, why_inadmissible

from ..paths import ROOT, read_jsonl
from .hostile_texts import MILLION, soup

OWN_CASES = ROOT / "tests" / "cases"
PUBLIC_CASES = ROOT.parent / "shared" / "verify_cases.jsonl"

MISSED = {("3-4i", r"\overline{3+4i}")}
ACCEPTED = {(r"\overrightarrow{AB}", r"\overrightarrow{BA}")}  # a product of letters has no order
DISPUTED = {"1.22", "z = 3+3 = 2", r"x=1/3\approx1.3"}  # labelled as right answers


CASES = {name: read_jsonl(OWN_CASES / f"{name}.jsonl") for name in ("answers", "kinds", "held_out")}
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
    cases = read_jsonl(OWN_CASES / "models.jsonl")
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
        for case in read_jsonl(PUBLIC_CASES)
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


# Tables


def against(gold, answer):
    return words_against(apart(normal_form(gold))[1], apart(normal_form(answer))[1])


def text_of(value):
    return None if value is None else str(value)


def is_near(gold, answer, *, is_rounded=False):
    near = Tolerance.of(gold, answer, is_rounded=is_rounded)
    return near.allows(number(gold), number(answer))


FUNCTIONS = {
    "verify": verify,
    "qwen": qwen.verify,
    "released": released.verify,
    "extract": extract_answer,
    "stated": lambda text: extract_answer(text, "stated"),
    "last_number": lambda text: extract_answer(text, "last_number"),
    "qwen.extract": qwen.extract_answer,
    "released.extract": released.extract_answer,
    "claims": default.claims,
    "normal_form": normal_form,
    "words": words,
    "core": lambda answer: apart(normal_form(answer))[0],
    "words_against": against,
    "number": lambda form: text_of(number(form)),
    "within": is_near,
    "rounded": lambda gold, answer: is_near(gold, answer, is_rounded=True),
    "why_not_compared": why_not_compared,
    "truth_answer": truth_answer,
    "why_inadmissible": lambda answer: why_inadmissible(
        answer, max_chars=64, special_tokens=("<eos>", "")
    ),
    "compare": compare,
}
TABLES = {}
for row in read_jsonl(OWN_CASES / "tables.jsonl"):
    TABLES.setdefault((row["of"], row["family"]), []).append((row["given"], row["expected"]))


@pytest.mark.parametrize(("of", "family"), TABLES)
def test_tables(of, family):
    found = [(given, FUNCTIONS[of](*given)) for given, _ in TABLES[of, family]]
    found = [(given, [*got] if isinstance(got, tuple) else got) for given, got in found]
    assert found == TABLES[of, family]


# Extraction

# hypothesis draws "</think>" from our code, too, and no box reaches over it
plain = st.text(st.characters(exclude_characters="\\{}<", exclude_categories=["Cs"]))
escapes = st.sampled_from([r"\{", r"\}", r"\\", r"\frac", r"\ "])
balanced = st.recursive(
    st.lists(plain | escapes, max_size=3).map("".join),
    lambda inner: st.tuples(plain, inner, plain).map(lambda t: f"{t[0]}{{{t[1]}}}{t[2]}"),
    max_leaves=6,
)


@given(balanced, plain, plain, st.sampled_from([r"\boxed{", r"\fbox{", r"\boxed {"]))
def test_any_balanced_content_comes_back(content, before, after, box):
    assert extract_answer(f"{before}{box}{content}}}{after}") == content.strip()


@given(st.lists(st.sampled_from([r"\boxed{", r"\fbox{", "{", "}", r"\{", "\\", "1", "\n"])))
def test_an_extracted_answer_is_balanced_whatever_surrounds_it(pieces):
    answer = extract_answer("".join(pieces))
    assert answer is None or why_inadmissible(answer + "1", max_chars=MILLION) != "unbalanced"


@settings(max_examples=200)
@given(text=soup)
def test_what_is_extracted_can_be_boxed_again(text):
    answer = extract_answer(text)
    assert answer is None or extract_answer(rf"\boxed{{{answer}}}") == answer


KINDS = [r"\boxed{0}", "the answer is 1.", "#### 2\n", "<answer>3</answer>", "**4**", r"\boxed 5"]


def test_kinds_are_tried_in_their_order_wherever_they_stand():
    for first in range(len(KINDS)):
        for kinds in (KINDS[first:], KINDS[:first:-1] + KINDS[first : first + 1]):
            assert extract_answer("\n".join(kinds), "stated") == str(first)


@pytest.mark.parametrize("extraction", EXTRACTIONS)
def test_an_unclosed_last_box_is_no_answer_whatever_is_stated(extraction):
    for text in (r"The answer is 42. \boxed{42", r"The answer is \boxed{42", r"\boxed{1} \boxed{2"):
        assert extract_answer(text, extraction) is None


@given(st.text())
def test_any_text_can_be_read_in_any_way_and_a_box_goes_first(text):
    for extraction in EXTRACTIONS:
        extract_answer(text, extraction)
        assert extract_answer(rf"{text.replace('{', '')} \boxed{{1}}", extraction) == "1"


# Properties


def test_a_decimal_comma_is_known_beside_the_same_number_with_a_point():
    assert verify("1000.99", "1000,99") == (True, "numbers")
    assert not verify("1.500", "1,500"), "three digits are a group of thousands"
    assert not verify("1.23", "1,22")
    assert not verify("1000,99", "1000.99"), "two numbers"


def test_an_answer_too_long_for_the_parser_is_compared_as_a_string():
    long = "12+" * 180 + "x"
    assert verify(long, long.replace("+", " + ")) == (True, "equal strings")


@given(st.text(max_size=30))
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


@given(soup)
def test_a_frame_and_spaces_around_an_answer_do_not_matter(answer):
    if "$" not in answer and answer.strip():
        assert normal_form(f" {answer.strip()} ") == normal_form(answer)


def test_a_unit_is_the_same_by_each_of_its_names_and_plurals_and_no_other():
    for name, unit in UNITS.items():
        for written in (name, f"{name}s") if len(name) > 1 else ():
            assert against(rf"10\text{{ {unit}}}", rf"10\text{{ {written}}}") is None
    for one, other in combinations(sorted(set(UNITS.values()) - {"base"}), 2):
        assert against(rf"10\text{{ {one}}}", rf"10\text{{ {other}}}") == "units"


def test_a_word_beside_a_number_may_change_it():
    for word in CHANGING:
        for answer in (rf"5\text{{ {word}}}", rf"\text{{{word} }}5"):
            assert against("5", answer) == "words", answer
            assert against(answer, answer) is None
    assert against("5", r"5\text{ apples}") is None
    assert against("5", r"\text{The answer is }5") is None


@given(st.fractions(max_denominator=999))
def test_every_fraction_is_read_in_each_way_of_writing_it(value):
    sign, size = "-" if value < 0 else "", abs(value)
    whole, rest = divmod(size.numerator, size.denominator)
    forms = [f"{value.numerator}/{value.denominator}"]
    forms.append(f"{sign}\\frac{{{size.numerator}}}{{{size.denominator}}}")
    if whole and rest:
        forms.append(f"{sign}{whole}\\frac{{{rest}}}{{{size.denominator}}}")
    assert {number(form) for form in forms} == {value}


@given(st.decimals(allow_nan=False, allow_infinity=False, places=4))
def test_every_decimal_is_read_exactly(value):
    assert number(format(value, "f")) == Fraction(value)


@given(st.integers(2, 9), st.integers(20, 60))
@settings(max_examples=8)
def test_small_powers_are_compared_exactly_though_math_verify_rounds(base, exponent):
    power = f"{base}^{{-{exponent}}}"
    assert compare(power, rf"\frac{{1}}{{{base}^{{{exponent}}}}}") == "equal"
    assert compare(power, f"{base}^{{-{exponent + 1}}}") == "different"
    assert compare(power, "0") == "different"


@given(st.integers(1, 99))
@settings(max_examples=8)
def test_numbers_may_differ_within_a_tolerance(n):
    value, near = f"{n}\\sqrt{{2}}", Tolerance(1e-6, 1e-4)
    assert compare(value, f"{n * 2**0.5:.6f}", near) == "equal"
    assert compare(value, f"{n * 2**0.5 + 1e-5:.6f}", near) == "different"
    assert compare(value, f"{n * 2**0.5:.6f}") == "different"


@given(soup, soup)
def test_balanced_texts_stay_balanced_beside_and_inside_each_other(one, other):
    if is_balanced(one):
        assert is_balanced("{" + one + "}" + other) == is_balanced(other)
        assert is_balanced(one + other) == is_balanced(other)
        assert not is_balanced(one + "}")
        assert not is_balanced("{" + one)


def test_a_character_that_is_not_seen_is_found():
    assert not has_unseen_characters("4 2é或𝟒")
    assert all(has_unseen_characters(f"4{c}2") for c in "\x00\n\u200b\u202e\ud800\u2028")


# The released string rule: what its order of removals does


@given(soup, soup)
def test_the_released_rule_is_an_equivalence(a, b):
    assert released.verify(a, a)
    assert released.verify(a, b) == released.verify(b, a)
    assert released.extract_answer(a + r" \boxed{7} ") == "7"
