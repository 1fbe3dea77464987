"""Answers: extraction, equivalence, admissibility, merging. Real math-verify, no mocks."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barl_trl._answer_strings import normal_form, why_not_compared
from barl_trl._math_verify_worker import MathVerifyWorker
from barl_trl.answers import (
    DROP_REASONS,
    MAX_TRUTH_CHARS,
    HypothesisSet,
    answers_equivalent,
    extract_answer,
    failed_comparisons,
    merge_hypotheses,
    truth_answer,
    why_inadmissible,
)

MILLION = 10**6

plain = st.text(st.characters(exclude_characters="\\{}", exclude_categories=["Cs"]))
escapes = st.sampled_from([r"\{", r"\}", r"\\", r"\frac", r"\ "])
balanced = st.recursive(
    st.lists(plain | escapes, max_size=3).map("".join),
    lambda inner: st.tuples(plain, inner, plain).map(lambda t: f"{t[0]}{{{t[1]}}}{t[2]}"),
    max_leaves=6,
)


# Extraction


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        (r"So \boxed{42}.", "42"),
        (r"\fbox{42}", "42"),
        (r"\boxed {42}", "42"),
        (r"\boxed{ 42 }", "42"),
        (r"\boxed{}", ""),
        (r"\boxed{1} and \boxed{2}", "2"),
        (r"\boxed{\frac{1}{2}}", r"\frac{1}{2}"),
        (r"\boxed{\{1, 2\}}", r"\{1, 2\}"),
        (r"\boxed{\left\{1\right\}}", r"\left\{1\right\}"),
        (r"\boxed{5}. I put it in \boxed.", "5"),
    ],
)
def test_the_answer_is_the_raw_content_of_the_last_box(text, answer):
    assert extract_answer(text) == answer


@pytest.mark.parametrize(
    "text",
    [
        "",
        "The answer is 42.",
        "42",
        r"\boxed",
        r"\boxed 42",
        r"\boxed42",
        r"boxed{42}",
        r"\\boxed{4}",
    ],
)
def test_without_a_box_there_is_no_answer_and_never_the_last_number(text):
    assert extract_answer(text) is None


@pytest.mark.parametrize("text", [r"\boxed{42", r"\boxed{1} \boxed{42", r"\boxed{1} \boxed{2\}"])
def test_an_unclosed_last_box_is_no_answer_and_never_an_earlier_one(text):
    assert extract_answer(text) is None


def test_of_nested_boxes_the_outermost_counts():
    assert extract_answer(r"\boxed{a \fbox{b} c}") == r"a \fbox{b} c"


def test_an_unclosed_box_does_not_swallow_a_later_closed_one():
    assert extract_answer(r"\boxed{x = 3. Hence \boxed{3}.") == "3"


@given(balanced, plain, plain, st.sampled_from([r"\boxed{", r"\fbox{", r"\boxed {"]))
def test_any_balanced_content_comes_back(content, before, after, box):
    assert extract_answer(f"{before}{box}{content}}}{after}") == content.strip()


@given(st.text())
def test_any_text_without_a_box_has_no_answer(text):
    assert extract_answer(text.replace("box", "")) is None


@given(st.lists(st.sampled_from([r"\boxed{", r"\fbox{", "{", "}", r"\{", "\\", "1", "\n"])))
def test_an_extracted_answer_is_balanced_whatever_surrounds_it(pieces):
    answer = extract_answer("".join(pieces))
    assert answer is None or why_inadmissible(answer + "1", max_chars=MILLION) != "unbalanced"


@pytest.mark.parametrize(
    "text",
    [
        "{" * MILLION,
        r"\boxed{" * (MILLION // 7),
        r"\boxed{" * (MILLION // 14) + "}" * (MILLION // 14),
        r"\boxed" + " " * MILLION,
        "\\" * MILLION,
        r"\boxed{" + "9" * MILLION + "}",
    ],
)
def test_extraction_is_linear_in_the_text(text):
    start = time.process_time()
    extract_answer(text)
    truth_answer(text)
    assert time.process_time() - start < 5


# The truth's own column


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("18", "18"),
        (" 18\n", "18"),
        (r"\frac{1}{2}", r"\frac{1}{2}"),
        (r"We get $x = \boxed{7}$.", "7"),
        ("9 * 2 = <<9*2=18>>18\n#### 18", "18"),
        ("a #### 1\nb\n#### 1,234 ", "1,234"),
        (r"$\frac{1}{2}$", r"\frac{1}{2}"),
        ("$$x$$", "x"),
        ("$1$ and $2$", "$1$ and $2$"),
        (r"\$18", r"\$18"),
        ("$18", "$18"),
        (
            "\\begin{pmatrix}\n  1 \\\\\n  2\n\\end{pmatrix}",
            r"\begin{pmatrix} 1 \\ 2 \end{pmatrix}",
        ),
        ("", ""),
    ],
)
def test_truth_is_read_from_bare_boxed_and_gsm8k_answers(text, answer):
    assert truth_answer(text) == answer


# Equivalence


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (r"\frac{1}{2}", "0.5"),
        (r"\frac{1}{2}", r"\dfrac{1}{2}"),
        (r"\frac12", "1/2"),
        ("3250", "3,250"),
        ("10000", r"10{,}000"),
        (r"10\%", r"10%"),
        (r"2\sqrt{3}", r"\sqrt{12}"),
        (r"3\pi", r"\pi \cdot 3"),
        ("(1,2)", r"\left( 1, 2 \right)"),
        (r"\{1,2\}", r"\{2,1\}"),
        ("x^2+2x+1", "(x+1)^2"),
        (r"(1,\infty)", "x>1"),
        (r"\text{Evelyn}", "evelyn"),
        (r"\text{Yes}", "yes."),
        (r"\text{C}", "C"),
        ("5 \\text{ km}", r"5\,\text{km}"),
        ("18", "$18$"),
    ],
)
def test_equal_answers_are_equivalent_however_they_are_written(a, b):
    assert answers_equivalent(a, b)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("2", "23"),
        (r"3\pi", "3"),
        (r"2\sqrt{3}", "2"),
        ("(1,2)", "(2,1)"),
        ("42", r"\{42, 43\}"),
        ("42", "42 or 43"),
        ("1 1/2", "11/2"),
        ("1, 200", "1,300"),
        (r"\text{seat}", r"\text{east}"),
        ("yes", "sey"),
        ("(0,1)", "[0,1]"),
        ("1", ""),
        ("", ""),
        ("$$", r"\,"),
    ],
)
def test_different_answers_are_not_equivalent(a, b):
    assert not answers_equivalent(a, b)


def test_the_truth_is_the_first_argument():
    assert not answers_equivalent("(3,5)", r"\{5,3\}")
    assert answers_equivalent("x=5", "5")


@given(st.text(max_size=30))
@settings(max_examples=50, deadline=None)
def test_an_answer_is_equivalent_to_itself_unless_it_is_empty(answer):
    assert answers_equivalent(answer, answer) == bool(normal_form(answer))


@given(st.text(alphabet=r"0123456789+-^{}()[]\, .!$frac", max_size=25))
@settings(max_examples=25, deadline=None)
def test_no_text_makes_a_comparison_raise(answer):
    assert answers_equivalent("7", answer) in (True, False)


HOSTILE = {
    "tower of powers": "9^{9^{9^9}}",
    "bare tower": "9^9^9",
    "huge exponent": "7^{10000000}",
    "factorial": "1000000!",
    "nested factorial": "((5!)!)!",
    "binomial": r"\binom{1000000}{500000}",
    "sum": r"\sum_{k=1}^{1000000} \frac{1}{k}",
    "gamma": r"\Gamma(1000000)",
    "million characters": "1" * MILLION,
    "million braces": "{" * MILLION,
    "million spaces": "1" + " " * MILLION + "1",
    "deep braces": "{" * 50 + "1" + "}" * 50,
    "deep parentheses": "(" * 200 + "1" + ")" * 200,
    "set of numbers": r"\{" + ",".join(map(str, range(100))) + r"\}",
    "end of the box": r"42} \boxed{42",
    "NUL": "4\x002",
    "bidirectional": "\u202e42",
    "zero width": "4\u200b2",
    "lone surrogate": "4\ud8002",
    "code": "__import__('os').system('true')",
}


@pytest.mark.parametrize("answer", HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_answers_are_refused_before_any_parser(answer):
    start, failures = time.process_time(), failed_comparisons()
    assert not answers_equivalent("42", answer)
    assert not answers_equivalent(answer, "42")
    assert why_not_compared(answer)
    assert failed_comparisons() == failures
    assert time.process_time() - start < 2


@pytest.mark.parametrize(
    "answer",
    [r"e^{-x^2}", r"2^{100}", r"10!", r"\binom{10}{3}", r"(x+1)^2(x-1)^3", "(n+1)!", r"\{1,2,3\}"],
)
def test_ordinary_answers_are_compared(answer):
    assert why_not_compared(answer) is None


def test_an_answer_too_long_for_the_parser_is_compared_as_a_string():
    long = "x+" * 300 + "x"
    assert answers_equivalent(long, long.replace("+", " + "))


def test_comparisons_work_from_another_thread_and_from_many():
    verdicts = []
    threads = [
        threading.Thread(
            target=lambda n=n: verdicts.append(answers_equivalent(f"{n}/4", f"{n}/4.0"))
        )
        for n in range(1, 9)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert verdicts == [True] * 8


def test_comparisons_work_in_a_forked_child():
    assert answers_equivalent("1/8", "0.125")
    child = os.fork()
    if child == 0:
        os._exit(0 if answers_equivalent("3/8", "0.375") else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert answers_equivalent("5/8", "0.625")


# The killable process


@pytest.fixture
def worker():
    worker = MathVerifyWorker(cpu_seconds=1, wall_seconds=20)
    yield worker
    worker.close()


@pytest.mark.parametrize("off_main_thread", [False, True])
def test_a_comparison_that_hangs_is_a_no_and_the_next_one_works(worker, caplog, off_main_thread):
    verdicts = []

    def compare():
        verdicts.append(worker("1", "9^{9^{9}}"))
        verdicts.append(worker("1/2", "0.5"))
        verdicts.append(worker("2", "9^{9^{9}}"))

    if off_main_thread:
        thread = threading.Thread(target=compare)
        thread.start()
        thread.join(60)
    else:
        compare()
    assert verdicts == [False, True, False]
    assert worker.failures == 2
    assert [record.levelname for record in caplog.records] == ["WARNING"]


def test_a_process_that_only_waits_is_killed_at_the_wall_time():
    worker = MathVerifyWorker(wall_seconds=0.5)
    assert worker("1/2", "0.5")
    os.kill(worker._process.child.pid, signal.SIGSTOP)
    assert not worker("1/2", "0.5")
    assert worker.failures == 1
    assert worker("1/2", "0.5")
    worker.close()


def test_a_process_that_died_while_idle_is_replaced_without_a_failure(worker):
    assert worker("1/2", "0.5")
    worker._process.child.kill()
    worker._process.child.wait()
    assert worker("1/2", "0.5")
    assert worker.failures == 0


def test_the_process_ends_with_its_parent():
    code = (
        "import os\nfrom barl_trl import answers\n"
        "assert answers.answers_equivalent('1/2', '0.5')\n"
        "print(answers._worker._process.child.pid, flush=True)\nos._exit(0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    pid = int(done.stdout)
    for _ in range(100):
        stat = Path(f"/proc/{pid}/stat")
        if not stat.exists() or stat.read_text().split()[2] == "Z":
            return
        time.sleep(0.1)
    pytest.fail("the process outlives its parent")


def test_importing_answers_imports_no_trainer_and_starts_no_process():
    code = (
        "import sys\nfrom barl_trl import answers\nassert answers._worker._process is None\n"
        "print([m for m in ('trl', 'transformers', 'torch', 'sympy') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


# Admissibility


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ("42", None),
        (r"\{1, 2\}", None),
        (r"\left(0, 1\right]", None),
        ("Zürich", None),
        ("", "empty"),
        (" ", "empty"),
        ("{1", "unbalanced"),
        ("1}", "unbalanced"),
        ("}{", "unbalanced"),
        ("5\\", "unbalanced"),
        ("1\n2", "control_characters"),
        ("1\t2", "control_characters"),
        ("4\x002", "control_characters"),
        ("\u202e42", "control_characters"),
        ("4\u200b2", "control_characters"),
        ("4\u20282", "control_characters"),
        ("<eos>", "special_token"),
        ("1" * 65, "too_long"),
        ("1" * 64, None),
        ("9" * MILLION, "too_long"),
    ],
)
def test_what_may_become_a_hypothesis(answer, reason):
    assert why_inadmissible(answer, max_chars=64, special_tokens=("<eos>", "")) == reason


# Hypothesis sets


def same(a: str, b: str) -> bool:
    return a.lower() == b.lower()


def merge(truth, answers, **kwargs) -> HypothesisSet:
    merged = merge_hypotheses(truth, answers, **{"equivalent": same, **kwargs})
    assert merged is not None
    return merged


def test_without_any_answer_the_truth_is_the_only_hypothesis():
    assert merge("a", []) == HypothesisSet(("a",), (), {})
    assert merge("a", [None, None]) == HypothesisSet(("a",), (None, None), {"no_answer": 2})


def test_answers_become_hypotheses_in_the_order_of_the_rollouts():
    assert merge("a", ["c", "b", "c", None]) == HypothesisSet(
        ("a", "c", "b"), (1, 2, 1, None), {"no_answer": 1}
    )


def test_the_most_frequent_form_is_scored_and_the_first_seen_on_ties():
    assert merge("a", ["A", "A"]).answers == ("A",)
    assert merge("a", ["A", "a"]).answers == ("a",)
    assert merge("a", ["A"]).answers == ("a",), "the truth counts as one occurrence, first seen"
    assert merge("a", ["b", "B", "B", "b"]).answers == ("a", "b")


def test_an_answer_joins_the_first_representative_that_it_matches_both_ways():
    both_ways = {("a", "b"), ("b", "a")}
    one_way = {("a", "c")}
    merged = merge("a", ["c", "b"], equivalent=lambda x, y: (x, y) in both_ways | one_way)
    assert merged.members == (1, 0)


def test_a_chain_of_equivalent_answers_does_not_join_up():
    near = {frozenset(("0.5", "50%")), frozenset(("50%", "50"))}
    merged = merge("0.5", ["50%", "50"], equivalent=lambda x, y: frozenset((x, y)) in near)
    assert merged.members == (0, 1), "50 matches 50%, but not the representative 0.5"
    merged = merge("50", ["50%", "0.5"], equivalent=lambda x, y: frozenset((x, y)) in near)
    assert merged.members == (0, 1)


def test_with_the_real_equivalence_the_truth_gathers_its_other_forms():
    merged = merge(r"\frac{1}{2}", ["0.5", "2", "1/2", "0.5"], equivalent=answers_equivalent)
    assert merged == HypothesisSet(("0.5", "2"), (0, 1, 0, 0), {})


def test_inadmissible_answers_are_dropped_and_counted_by_rollout():
    answers = ["", "{", "1\n", "<eos>", "1" * 65, "1" * 65, None, "ok"]
    merged = merge("a", answers, special_tokens=["<eos>"])
    assert merged.answers == ("a", "ok")
    assert merged.members == (None,) * 7 + (1,)
    assert merged.dropped == {
        "empty": 1,
        "unbalanced": 1,
        "control_characters": 1,
        "special_token": 1,
        "too_long": 2,
        "no_answer": 1,
    }
    assert set(merged.dropped) < set(DROP_REASONS)


def test_the_truth_and_its_repetitions_are_exempt_from_the_limit_of_answers():
    truth = "1" * MAX_TRUTH_CHARS
    assert merge(truth, [truth, "2" * 65]) == HypothesisSet((truth,), (0, None), {"too_long": 1})


@pytest.mark.parametrize("truth", ["", "{", "1\n2", "<eos>", "1" * (MAX_TRUTH_CHARS + 1)])
def test_an_inadmissible_truth_has_no_hypothesis_set(truth):
    merged = merge_hypotheses(truth, ["1"], equivalent=same, special_tokens=["<eos>"])
    assert merged is None


def test_over_the_cap_the_least_frequent_hypotheses_are_dropped_the_last_seen_first():
    answers = ["b", "c", "c", "d", "e", "e"]
    merged = merge("a", answers, max_hypotheses=4)
    assert merged.answers == ("a", "b", "c", "e")
    assert merged.members == (1, 2, 2, None, 3, 3)
    assert merged.dropped == {"over_max_hypotheses": 1}
    assert merge("a", answers, max_hypotheses=1).members == (None,) * 6


@pytest.mark.parametrize("option", ["max_answer_chars", "max_hypotheses"])
def test_a_limit_below_one_is_refused(option):
    with pytest.raises(ValueError, match=f"{option} must be at least 1, got 0: "):
        merge("a", [], **{option: 0})


rollout_answers = st.lists(st.none() | st.sampled_from(["a", "A", "b", "B", "c", "", "{"]))


@given(rollout_answers, st.none() | st.integers(1, 4))
def test_every_member_points_at_an_answer_that_it_matches(answers, most):
    merged = merge("a", answers, max_hypotheses=most)
    assert same(merged.answers[0], "a")
    assert len(merged.members) == len(answers)
    assert len(set(merged.answers)) == len(merged.answers) <= (most or 5)
    for answer, member in zip(answers, merged.members, strict=True):
        assert member is None or same(merged.answers[member], answer)
    assert sum(merged.dropped.values()) == merged.members.count(None)
    assert merge("a", answers, max_hypotheses=most) == merged


def test_the_order_of_hypotheses_does_not_depend_on_the_hash_seed():
    code = (
        "from barl_trl.answers import merge_hypotheses\n"
        "print(merge_hypotheses('a', list('zyxwvzyx'), equivalent=str.__eq__, max_hypotheses=4))"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(outputs) == 1


# Against labelled pairs of public test suites, where they are at hand.

CASES = Path(__file__).parents[2] / "shared" / "verify_cases.jsonl"


@pytest.mark.skipif(not CASES.exists(), reason="the labelled pairs are not part of the package")
def test_at_least_93_percent_of_labelled_pairs_are_judged_as_labelled():
    cases = [json.loads(line) for line in CASES.read_text(encoding="utf-8").splitlines()]
    cases = [
        case
        for case in cases
        if "hardverify" not in case["source"].lower() and case.get("answer_protocol", True)
        if case["answer"] is not None and case["gold_bare"] is not None
    ]
    right = sum(answers_equivalent(c["gold_bare"], c["answer"]) == c["expected"] for c in cases)
    assert right / len(cases) >= 0.93
