r"""Whatever a policy writes: nothing hangs or raises, is run or heard, and nothing is fooled.

The hostile texts go through every grader, its extraction and the reward. `TRICKS` are answers made
to please a lenient parser, which the default grader refuses. Real graders, real processes.
"""

import os
import resource
import time
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from barl_trl.graders import (
    GRADERS,
    default,
    extract_answer,
    get_grader,
    normal_form,
    nouns,
    numbers,
    qwen,
    released,
)
from barl_trl.hypotheses import truth_answer
from barl_trl.rewards import AccuracyReward

from ..paths import ROOT, read_jsonl
from .hostile_texts import HOSTILE, MORE, PIECES, SHORTER, TRUTH, soup

LONG = 30_000
# No refusal stands before these: the process that compares reaches its limit.
COSTLY = {"math_verify": "(1000!)^{9999}", "qwen": r"{2000000 \choose 1000000}"}

every_grader = pytest.mark.parametrize("grader", GRADERS.values(), ids=GRADERS.keys())


# Nothing hangs or raises


@every_grader
@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
def test_a_hostile_string_is_not_the_true_answer_nor_is_any_its_true_answer(grader, text):
    start = time.process_time()
    for gold, answer in ((TRUTH, text), (text[:30_000], TRUTH)):
        verdict = grader.verify(gold, answer)
        assert verdict == (False, verdict.reason)
    assert time.process_time() - start < 20


BOX = r"\boxed{"
READERS = {
    "claims": (lambda text: default.claims("x=6", text), normal_form.MAX_TRUTH_CHARS),
    "limits": (normal_form.why_not_compared, LONG),
    "normal form": (normal_form.normal_form, LONG),
    "nouns": (nouns.apart, 2048),
    "numbers": (lambda text: (numbers.number(text), numbers.Tolerance.of("1.5", text)), LONG),
    "words_against": (lambda text: nouns.words_against(["cm"], text.split()), LONG),
    "default": (lambda text: default.verify("1", text), LONG),
    "qwen": (lambda text: qwen.verify("1", text), LONG),
    "extraction": (lambda text: extract_answer(text, "last_number"), LONG),  # it reads all others
    "truth": (truth_answer, LONG),
    "qwen's extraction": (lambda text: [qwen.extract_answer(b + text) for b in ("", BOX)], LONG),
    "released": (lambda text: released.verify(text, released.extract_answer(BOX + text)), LONG),
}
"""What looks for patterns in this process, and the longest text that it gets: nouns and claims take
quadratic time."""
COMPOSED = [
    *[r"\boxed{" * 4000 + "}" * 4000, r"\boxed" + " " * LONG, r"\boxed{" + "9" * LONG + "}"],
    *["answer" + " " * LONG, "answer: " + r"\[" * LONG, "answer: " + "{a}" * (LONG // 4) + "{"],
    *["answer: " + "$$ $" * LONG, "answer: " + ", " * (LONG // 3) + "because"],
    *["#### " + "a " * (LONG // 3) + "aa", "**" + r"\a" * (LONG // 3) + " aa**", "$" + "a" * LONG],
    *[r"\{x|" * 2000 + r"\le" * 2640, r"\{" + "a" * 9000 + "|" * 9000],
]


@pytest.mark.parametrize("name", READERS)
def test_no_pattern_takes_seconds(name, monkeypatch):
    """A text takes some hundredths; the kernel ends what takes three seconds of CPU time."""
    read, size = READERS[name]
    monkeypatch.setattr(default, "compare", lambda *_: "different")
    repeated = [before + one * size for one in PIECES + MORE for before in ("", "(")]
    if not (child := os.fork()):
        status = 1
        try:
            for text in repeated + COMPOSED:
                resource.setrlimit(resource.RLIMIT_CPU, (int(time.process_time()) + 4, -1))
                read(text[:size])
            status = 0
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@every_grader
def test_extraction_and_reward_give_hostile_completions_nothing(grader):
    texts = [text for text in SHORTER.values() if TRUTH not in text]
    completions = [*texts, *(rf"\boxed{{41}} \boxed{{{text}" for text in texts)]
    columns, truths = {}, [TRUTH] * len(completions)
    reward = AccuracyReward(grader, grader.name)
    rewards = reward(completions, truths, log_extra=columns.__setitem__)
    assert rewards == [0.0] * len(completions)
    assert all(isinstance(answer, str) for answer in columns["answer"])


@every_grader
def test_a_hostile_solution_is_skipped_or_not_met(grader):
    solutions = list(SHORTER.values())
    rewards = AccuracyReward(grader, grader.name)([r"\boxed{40}"] * len(solutions), solutions)
    assert set(rewards) == {None, 0.0}


@every_grader
def test_what_costs_more_than_its_limit_is_not_correct(grader, pool, monkeypatch):
    monkeypatch.setattr(default, "compare", pool)
    verdict = grader.verify(TRUTH, COSTLY.get(grader.name, COSTLY["qwen"]))
    assert not verdict.correct
    assert verdict.is_failure == (grader.name in COSTLY)
    assert grader.verify("2e", r"e\cdot 2") or grader.name == "string"


@every_grader
@settings(max_examples=40)
@given(gold=soup, answer=soup)
@example(gold=r"\frac{1}{2}\ln^0.5\piinf", answer="7")
@example(gold=r"\{\frac{1}{2}\}", answer=r"\{0.5")
def test_of_any_two_texts_one_is_the_other_or_not(grader, gold, answer):
    verdict = grader.verify(gold, answer)
    assert isinstance(verdict.correct, bool) and verdict.reason
    assert grader.verify(gold, answer) == verdict
    assert not (verdict.correct and verdict.is_failure)
    assert grader.verify(answer, answer) or not grader.verify(answer, "1")


@every_grader
@settings(max_examples=40)
@given(completions=st.lists(soup, max_size=4), solution=soup)
def test_any_completion_has_a_reward_for_any_solution(grader, completions, solution):
    logged = {}
    solutions = [solution] * len(completions)
    rewards = AccuracyReward(grader, "r")(completions, solutions, log_extra=logged.__setitem__)
    assert set(rewards) <= {None, 0.0, 1.0}
    lengths = {name: len(column) for name, column in logged.items()}
    assert lengths == dict.fromkeys(("solution", "answer", "verdict"), len(completions))


# Nothing that a policy writes is run or heard


@pytest.mark.parametrize(
    "payload",
    [
        *["__import__('pathlib').Path('{}').touch()", "open('{}','w')", "exec(\"open('{}','w')\")"],
        *[r"\text{{__import__('pathlib').Path('{}').touch()}}", "1 if open('{}','w') else 2"],
        *["(lambda:open('{}','w'))()", "Symbol('x').subs(open('{}','w'),1)", "$(touch {})"],
        *["`touch {}`", "1; touch {}", r"\immediate\write18{{touch {}}}", r"\openout5={}"],
    ],
)
def test_code_is_not_run(tmp_path, payload, pool):
    marker = tmp_path / "ran"
    code = payload.format(marker)
    for grader in GRADERS.values():
        assert not grader.verify(TRUTH, code)
        assert not grader.verify(code, TRUTH)
    assert pool(TRUTH, code) != "equal", "without the refusals that stand before it"
    assert pool(code, TRUTH) != "equal"
    assert not marker.exists()


# Gaming: the default grader is not fooled


def families(path: Path) -> dict[str, set[tuple[str, str]]]:
    """The wrong answers of a file of cases by their family: true answer, answer."""
    found = {}
    for case in read_jsonl(path):
        if not case["equivalent"]:
            found.setdefault(case["family"], set()).add((case["gold"], case["answer"]))
    return found


GAMED = families(ROOT / "tests" / "cases" / "gamed.jsonl")
TRICKS = families(Path(__file__).with_name("tricks.jsonl"))
STILL_ACCEPTED = {  # to be refused: a pair that is has to go from here
    # two different things that are no units
    (r"3\text{ apples}", r"3\text{ oranges}"),
    (r"10\text{ km north}", r"10\text{ km south}"),
    # order
    ("x=1,y=2", "2,1"),
    (r"A \in B", r"B \in A"),
    (r"\angle ABC", r"\angle BAC"),
    ("NE", "EN"),
    (r"\vec{a}\cdot\vec{b}", r"\vec{a}\times\vec{b}"),
    ("A^T", "A"),
    *(TRICKS["sloppy writing"] - {(r"\{1,2\}", r"\{\{1\},\{2\}\}")}),
}


@pytest.mark.parametrize("tricks", [*GAMED.values(), *TRICKS.values()], ids=[*GAMED, *TRICKS])
def test_no_answer_made_to_please_is_accepted(tricks):
    verdicts = get_grader("math_verify").verify_all(tricks)
    assert {pair for pair, verdict in verdicts.items() if verdict} == tricks & STILL_ACCEPTED
    assert not any(verdict.is_failure for verdict in verdicts.values())
