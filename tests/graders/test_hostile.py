r"""Whatever a policy writes: nothing hangs or raises, is run or heard, and nothing is fooled.

The hostile texts go through every grader, its extraction and the reward. `GAMING` are answers made
to please a lenient parser, which the default grader refuses. Real graders, real processes.
"""

import json
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
    get_grader,
    normal_form,
    nouns,
    numbers,
    qwen,
)
from barl_trl.rewards import AccuracyReward

from ..paths import ROOT
from .grader_processes import linux
from .hostile_texts import HOSTILE, MILLION, PIECES, SHORTER, TRUTH, soup

GAMED = ROOT / "tests" / "cases" / "gamed.jsonl"
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


READERS = {
    "claims": (lambda text: default.claims("x=6", text), normal_form.MAX_TRUTH_CHARS),
    "limits": (normal_form.why_not_compared, LONG),
    "nouns": (nouns.apart, 2048),
    "numbers": (lambda text: (numbers.number(text), numbers.Tolerance.of("1.5", text)), LONG),
    "words_against": (lambda text: nouns.words_against(["cm"], text.split()), LONG),
    "default": (lambda text: default.verify("1", text), LONG),
    "qwen": (lambda text: qwen.verify("1", text), LONG),
}
"""What looks for patterns in this process, and the longest text that it gets: nouns and claims take
quadratic time. Extraction and the released rule are tried with more in tests of their own."""


@pytest.mark.parametrize("name", READERS)
def test_no_pattern_takes_seconds(name, monkeypatch):
    """A text takes some hundredths; the kernel ends what takes three seconds of CPU time."""
    read, size = READERS[name]
    monkeypatch.setattr(default, "compare", lambda *_: "different")
    if not (child := os.fork()):
        status = 1
        try:
            for piece in PIECES:
                resource.setrlimit(resource.RLIMIT_CPU, (int(time.process_time()) + 4, -1))
                read((piece * size)[:size])
                read(("(" + piece * size)[:size])
            status = 0
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@every_grader
def test_extraction_and_reward_give_hostile_completions_nothing(grader):
    texts = [text for text in SHORTER.values() if TRUTH not in text]
    completions = [*texts, *(rf"\boxed{{41}} \boxed{{{text}" for text in texts)]
    columns = {}
    rewards = AccuracyReward(grader, grader.name)(
        completions, [TRUTH] * len(completions), log_extra=columns.__setitem__
    )
    assert rewards == [0.0] * len(completions)
    assert all(isinstance(answer, str) for answer in columns["answer"])


@every_grader
def test_a_hostile_solution_is_skipped_or_not_met(grader):
    solutions = list(SHORTER.values())
    rewards = AccuracyReward(grader, grader.name)([r"\boxed{40}"] * len(solutions), solutions)
    assert set(rewards) == {None, 0.0}


@pytest.mark.slow
@linux
def test_the_memory_of_this_process_does_not_grow_with_what_it_judges():
    texts = [HOSTILE[name] for name in ("million digits", "million words", "unclosed boxes")]

    def judge_all(time: int):  # other texts each time: what is remembered would add up
        for grader in GRADERS.values():
            completions = [rf"\boxed{{{time}{text}}}" for text in texts]
            AccuracyReward(grader, grader.name)(completions, [TRUTH] * len(texts))

    def resident() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()

    judge_all(1)
    judge_all(2)  # the heap has its size now
    before = resident()
    judge_all(3)
    judge_all(4)
    assert resident() - before < 9 * MILLION, "three quarters of the answers"


@every_grader
def test_what_costs_more_than_its_limit_is_not_correct(grader, pool, monkeypatch):
    monkeypatch.setattr(default, "compare", pool)
    verdict = grader.verify(TRUTH, COSTLY[grader.name])
    assert not verdict.correct
    assert verdict.is_failure
    assert grader.verify("2e", r"e\cdot 2")


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
    assert {name: len(column) for name, column in logged.items()} == dict.fromkeys(
        ("solution", "answer", "verdict"), len(completions)
    )


# Nothing that a policy writes is run or heard


@pytest.mark.parametrize(
    "payload",
    [
        "__import__('pathlib').Path('{}').touch()",
        "open('{}','w')",
        "exec(\"open('{}','w')\")",
        r"\text{{__import__('pathlib').Path('{}').touch()}}",
        "1 if open('{}','w') else 2",
        "(lambda:open('{}','w'))()",
        "Symbol('x').subs(open('{}','w'),1)",
        "$(touch {})",
        "`touch {}`",
        "1; touch {}",
        r"\immediate\write18{{touch {}}}",
        r"\openout5={}",
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

# fmt: off
GAMING = {
    "hedges": [
        ("1", "x=1 or x=2"), ("1", r"1 \text{ or } 2"), ("1", r"x=1 \text{ or } x=2"), ("1", "1,2"),
        ("42", r"42 \text{ or } 43"), ("42", r"42\text{ or }43"), ("42", r"42 \lor 43"),
        ("42", "42 43"), ("42", "42;43"), ("42", "42|43"), ("42", "42/43"), ("42", r"42\quad 43"),
        ("42", r"42\,43"), ("42", r"\{42, 43\}"), ("42", r"x \in \{42, 43\}"),
        ("42", r"\text{42 or 43}"), ("42", r"42 \text{ maybe } 43"), ("42", "42或43"),
        ("42", "42 % 43"), ("42", r"42 \& 43"), ("42", r"\text{either } 42 \text{ or } 43"),
        ("42", r"42 \mathrm{or} 43"), ("42", r"42 \iff 43"), ("42", r"42 \texttt{ or } 43"),
        ("42", r"42 \to 43"), ("42", r"42, \ldots"), ("42", "...42"),
        ("1", ",".join(map(str, range(1, 60)))), ("2", r"\pm2"), ("42", r"42 \pm 1"),
        ("42", "41..43"), ("A", "A, B"), ("A", r"\text{A or B}"), ("A", r"(A) \text{ and } (B)"),
        ("yes", "yes and no"), ("(1,2)", "(1,2),(3,4)"), ("(1,2)", r"(1,2) \text{ or } (3,4)"),
        ("1,2", "1,2,3"), ("1,2", r"1,2 \text{ or } 3"), (r"\{1,2\}", r"\{1,2,3\}"),
        (r"\{1,2\}", r"\{1,2,\ldots\}"), (r"1 \text{ or } 2", r"1 \text{ or } 2 \text{ or } 3"),
        (r"\pm 2", r"\pm 2, 3"),
    ],
    "several boxes": [
        ("42", "42} and \\boxed{43"), ("5", r"5 \boxed{6}"), ("5", r"\boxed{6} \boxed{5}"),
        ("42", r"\boxed{42} or \boxed{43}"), ("42", r"\boxed{42}, \boxed{43}"),
        ("5", r"5 \boxed{6"),
    ],
    "chains and relations": [
        ("6", "5=6"), ("42", "1=2=3=42"), ("42", "x=1=2=42"), ("x=2", "2=x=3"), ("x=2", "x=2=3"),
        ("42", "x<42"), ("42", r"x \ge 42"), ("42", r"x \ne 42"), ("42", "<42"), ("42", "41<42<43"),
        ("x=2", r"x \ne 2"), ("x=2", "x=2, x=3"), ("x=2", "y=2"), ("y=2x+1", "y=2x"),
        ("x=2", "x=x"), ("x>1", r"x \ge 1"), ("x>1", "x<1"), ("a<b<c", "a<c<b"), ("5", "5="),
        ("5", "x=5, y=6"),
    ],
    "sets, intervals, order": [
        ("[0,1]", "(0,1)"), ("(1,2]", "[1,2)"), ("(1,2)", "(2,1)"), ("(1,2)", r"\{1,2\}"),
        (r"(-\infty,1)\cup(2,\infty)", r"(-\infty,1)\cap(2,\infty)"), (r"(0,1)\cup(1,2)", "(0,2)"),
        (r"(-\infty,1)\cup(1,\infty)", r"\mathbb{R}"), (r"\mathbb{R}", r"\mathbb{C}"),
        (r"\{1,2\}", r"x \notin \{1,2\}"), (r"\{1,2\}", r"\mathbb{R} \setminus \{1,2\}"),
        (r"\emptyset", r"\{\emptyset\}"), ("0", r"\emptyset"), ("[1,2]", "[2,1]"),
        (r"\begin{pmatrix}1&2\\3&4\end{pmatrix}", r"\begin{pmatrix}1&3\\2&4\end{pmatrix}"),
        (r"\begin{pmatrix}1&2\\3&4\end{pmatrix}", r"\begin{pmatrix}1&2\\3&4\end{pmatrix}^T"),
        ("42", r"\begin{array}{c}41\\42\end{array}"), ("42", r"\begin{cases}42\\43\end{cases}"),
        ("42", r"\begin{cases}42 & x>0\\43 & x<0\end{cases}"), ("42", r"\substack{41\\42}"),
    ],
    "precision": [
        ("10^{-7}", "0.0"), (r"\frac{1}{2^{99}}", "0.0"), ("1/2^{99}", "1/2^{98}"),
        ("1/2004!", "1/2006!"), (r"\frac{1}{1000!}", r"\frac{1}{999!}"), ("10^{50}", "10^{50}+1"),
        ("100000000000", "99999999999"), ("0", "0.0000001"), ("0", "10^{-100}"), ("x", "x+2^{-99}"),
        ("(10^{-7},1)", "(0.0,1)"), (r"\pi", "3.14"), (r"\pi", "22/7"), (r"\sqrt{2}", "1.414"),
        (r"\frac{1}{3}", "0.333"), ("1000000", "1000000.1"), ("1", "1+10^{-9}"), ("1", "0.9999"),
        (r"\begin{pmatrix}10^{-7}\\1\end{pmatrix}", r"\begin{pmatrix}0.0\\1\end{pmatrix}"),
        ("42", "42.0000001"), ("0.1234567", "0.1234568"), ("1", "1.0+10^{-7}i"),
    ],
    "undefined": [
        ("0", "0/0"), ("1", r"\frac{0}{0}"), (r"\infty", "1/0"), ("1", r"1^\infty"),
        (r"\infty", r"-\infty"), ("0", r"\infty-\infty"), (r"\infty", "10^{10}"), ("0", "nan"),
        ("0", r"\text{NaN}"), ("5", "zoo"), ("5", "oo"), (r"\text{undefined}", r"\infty"),
        (r"\frac{1}{0}", r"\frac{2}{0}"),
    ],
    "units, percent, bases": [
        (r"10\text{ kg}", r"10\text{ cm}"), (r"5\text{ hours}", r"5\text{ minutes}"),
        (r"5\text{ m/s}", r"5\text{ km/h}"), (r"24\text{ cm}^2", r"24\text{ cm}^3"), ("50", "0.5"),
        (r"50\%", r"0.5\%"), (r"\frac{1}{2}", "50"), ("1", "100"), ("10_2", "10_3"),
        ("1011_2", "11"), (r"5\text{ hours}", r"5\text{ hours and 30 minutes}"),
        ("5", r"5\text{ times } 10"), ("40", r"40\text{ chocolate}, 50\text{ hard}"),
        ("5:30", "5:31"), ("3:2", "2:3"),
    ],
    "words": [
        (r"\text{east}", r"\text{seat}"), ("east", "seat"), ("yes", "sey"), (r"\text{No}", "on"),
        (r"\text{True}", "1"), (r"\text{True}", "1=1"), (r"\text{no solution}", "0"), ("AB", "ab"),
        (r"\text{yes}", r"\text{not yes}"), ("42", r"\text{not } 42"), ("5", r"\text{minus } 5"),
    ],
    "what is not seen, is not there, or is TeX": [
        ("42", r"43 \phantom{42}"), ("42", r"\phantom{43}42"), ("42", r"\hspace{42pt}"),
        ("42", r"\color{white}{43}42"), ("42", r"43\color{white}42"), ("42", r"\def\a{42}\a"),
        ("42", r"\let\a42"), ("42", r"\newcommand{\a}{42}"), ("42", r"\ifx 42 \else 43 \fi"),
        ("42", r"\underset{43}{42}"), ("42", r"\overset{42}{43}"), ("42", r"\cancel{42}43"),
        ("42", r"\tag{42}"), ("42", "42^{43}"), ("42", r"\href{43}{42}"), ("42", r"\char52\char50"),
    ],
    "writing": [
        ("42", "4 2"), ("42", "4,2"), ("42", "{4}{2}"), ("42", "4{}2"), ("42", "4_2"),
        ("42", "4.2"), ("42", "42i"), ("42", "42x"), ("42", "-42"), ("42", "+-42"), ("42", "42e1"),
        ("42", "0x2A"), ("42", "42!"), ("3", "3!"), ("6", "6!!"), ("720", "6"), ("42", "!42"),
        ("42", "42-"), ("42", "4²"), ("42", "４３"), ("42", "4\u03032"), ("1234", "12,34"),
        ("253", "3 250 1"), (r"\frac{11}{2}", "1 1/2"), (r"2\frac{1}{3}", r"\frac{2}{3}"),
        (r"\frac{1}{2}", r"\frac{1}{2}\frac{3}{4}"), ("5", "[5)"), (r"\sqrt{23}", r"\sqrt 23"),
        (r"\sqrt[3]{2}", r"3\sqrt{2}"), (r"\frac52", r"{5 \choose 2}"), ("20", "2^10"),
        (r"\log_2 3", r"\log_3 2"), (r"\ln 2", r"\log 2"), ("x^2", "X^2"), ("x", "х"),
        ("x_1", "x_2"), ("f(2)", "f(3)"), (r"\sin^2 x", r"\sin x^2"), ("x", r"\frac{x}{0}"),
    ],
    "infinity, which is equal to anything": [
        ("7", r"\{\max(\infty,3)\}"), (r"\pi", r"\{\max(\infty,3)\}"),
        ("0.5", r"\{\ln^{0.5}(\infty)\}"), ("x=2", r"\max(\infty,3),\max(\infty,3)"),
        ("1,2", r"\max(\infty,3)"), ("1,2", r"2^{2\infty}"),
        ("(1,2)", r"(\max(\infty,3),\max(\infty,3))"), ("7", r"(3,\max(\pi,\infty)]"),
        (r"\{3,5\}", r"\ln^{0.5}(\infty)"), ("x>1", r"\{\max(\infty,3), \max(\infty,3)+1\}"),
        (r"\infty", r"x+\infty"), (r"\infty", r"\infty i"),
    ],
    "the last number of what the parser cannot read": [
        ("5", r"6 \to 5"), ("5", r"6 \Rightarrow 5"), ("5", r"6 \gg 5"), ("5", r"6 \cup 5"),
        ("5", r"6\foo, 5"), ("5", r"\ne 5"), ("5", r"\ge 5"), ("5", r"\neg 5"), ("5", r"6 \ni 5"),
        ("5", r"{6 \brack 5}"), ("5", r"\iffalse 6 \fi 5"), ("5", r"\begingroup 6 \endgroup 5"),
        ("5", "43=5,"), ("5", r"6 \boxed 5"), ("x=2", r"x=3 \foo x=2"), ("x=2", "x=2∨3"),
        ("x=2", r"\neg x=2"), ("5", r"\csname 5\endcsname"), ("5", r"6 \binom 5"),
        ("5", r"6 \begin 5"), ("5", r"6\arccos, 5"), ("5", r"\cup_6 5"), ("5", r"6\cup = 5"),
    ],
    "some formula of what the parser cannot read": [
        ("5", r"6 \foo $5$"), ("5", r"6 \foo \(5\)"), ("5", r"6 \foo \[5\]"),
        ("5", "6 final answer is $5$. I hope"), (r"\frac{1}{2}", r"6 \gg \frac{1}{2}"),
        (r"\frac{1}{2}", r"\begin{foo}\frac{1}{2} 7 \foo"),
    ],
    "letters at the end are taken for units": [
        ("3", "3t"), ("3t", "3"), ("3t", "3s"), ("2ab", "2bc"), ("x^2", "x^2t"), ("y=3t", "y=3s"),
        ("2x+3t", "2x+3"), ("3", "3 a 4"), ("5", "5 e 6"), ("10 m", "10 cm"), ("10 m", "10 kg"),
        ("5 hours", "5 minutes"), ("3", "3 less"), ("3", "3ab"), ("y=3x+2", "y=3x+2c"),
    ],
    "text that says something else is dropped": [
        ("5", r"5\text{6}"), ("5", r"5\mathrm{6}"), ("5", r"5\mbox{ 6}"), ("5", r"5\text{ six}"),
        ("(1,2)", r"(1,2)\text{3}"), ("5", r"5\text{ million}"), ("5", r"5\text{ minus one}"),
        ("5", r"5\text{ squared}"), ("5", r"5\text{ is wrong}"), ("5", r"5 \text{ million}"),
        (r"5\text{ million}", r"5\text{ billion}"), ("5", r"5？^{6}"), ("5", r"5\mathbf{6}"),
        ("5", r"5\text{ halves}"),
    ],
    "two different units": [
        (r"5\text{ cm}", r"5\text{ apples}"), (r"5\text{ m/s}", r"5\text{ s/m}"),
        (r"5\text{ m/s}", r"5\text{ m/s}^2"), (r"3\text{ apples}", r"3\text{ oranges}"),
        (r"30^\circ\text{C}", r"30^\circ\text{F}"), (r"30^\circ", "30'"), (r"\$5", r"5\%"),
        (r"30^\circ", r"30\text{ radians}"), (r"\$5", r"5\text{ cents}"),
        (r"5:30\text{ pm}", r"5:30\text{ am}"), (r"10\text{ km north}", r"10\text{ km south}"),
    ],
    "half of a relation": [
        ("5", r"5 \approx 6"), (r"\sqrt{2}", r"\sqrt{2} \approx 7"), ("5", "5≈6"), ("5", "6==5"),
        ("5", r"6 \equiv 5"), ("x=2", r"x=2 \approx 3"), ("5", "(x:=5)"),
        ("5", r"x=6 \land y=5"), ("x^2+1", "3 == x^2+1"), ("(1,2)", r"(1,2) \approx (3,4)"),
    ],
    "no name before the equals sign": [
        ("5", "6x=5"), ("5", "x^2=5"), ("5", "-x=5"), ("5", "x+6=5"), ("5", "6or=5"),
        ("5", "x>6=5"), ("5", r"\text{6}=5"), ("5", r"\text{not}=5"), ("5", "6<x=5"),
        ("5", r"5 \approx 3 = 5"), ("5", r"\text{wrong}=5"),
    ],
    "boxes in the box": [
        ("5", r"6\boxed{5}"), ("5", r"\boxed{5}6"), ("5", r"\fbox{5} 6"), ("5", r"6 \boxed{5}"),
    ],
    "what is not seen, and marks that are not read": [
        ("5", r"\phantom{5}"), ("x+1", r"\phantom{x}+1"), ("5", "5|^{6}"), ("5", "5|_{6}"),
        ("5", r"5_{\max 6}"), ("f'(x)", "f(x)"), ("f''(x)", "f'(x)"), ("x'", "x"),
        (r"\frac{1}{2}", r"\frac{1_7}{2}"),
    ],
    "infinity": [
        (r"\infty", "3+4i"), (r"-\infty", "2-i"), (r"\infty", "|3+4i|"), ("3+4i", r"\infty"),
        (r"\infty", r"-\infty"), (r"\infty", "10^{9}"),
    ],
    "order": [
        ("x=1,y=2", "2,1"), ("(1,2)", "(y,x)=(1,2)"), ("3:2:1", "3:2"), (r"A \in B", r"B \in A"),
        (r"\frac{dy}{dx}", r"\frac{dx}{dy}"), (r"\angle ABC", r"\angle BAC"), ("no", "on"),
        ("NE", "EN"), (r"\vec{a}\cdot\vec{b}", r"\vec{a}\times\vec{b}"), ("A^T", "A"),
    ],
    "sloppy writing": [
        ("4", r"\sqrt{x}=4"), ("1,1,2", "1,2"), (r"\{1,2\}", r"\{\{1\},\{2\}\}"), ("B", "(B) 21"),
        (r"(-\infty,2)\cup(3,\infty)", r"x<2 \text{ and } x>3"), ("(x,y)=(1,2)", "1<x<2"),
        (r"(-\infty,4)", r"[-\infty,4)"), (r"\{x | x>7\}", r"\{y | x>7\}"),
        (r"\sin\theta", r"\sin(\theta^\circ)"),
    ],
}
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
    *({*GAMING["sloppy writing"]} - {(r"\{1,2\}", r"\{\{1\},\{2\}\}")}),
}
GAMED_FAMILIES = [json.loads(line) for line in GAMED.read_text().splitlines()]
# fmt: on


@pytest.mark.parametrize("family", sorted({case["family"] for case in GAMED_FAMILIES}))
def test_no_answer_of_a_family_of_tricks_is_accepted(family):
    tricks = {
        (case["gold"], case["answer"])
        for case in GAMED_FAMILIES
        if case["family"] == family and not case["equivalent"]
    }
    verdicts = get_grader("math_verify").verify_all(tricks)
    assert len(tricks) >= 20
    assert {pair for pair, verdict in verdicts.items() if verdict.correct} == set()
    assert not any(verdict.is_failure for verdict in verdicts.values())


@pytest.mark.parametrize(
    ("gold", "answer"),
    [
        pytest.param(
            *pair,
            id=f"{trick}: {pair[1]} for {pair[0]}",
            marks=[pytest.mark.xfail(strict=True, reason="accepted")] * (pair in STILL_ACCEPTED),
        )
        for trick, pairs in GAMING.items()
        for pair in pairs
    ],
)
def test_an_answer_made_to_please_is_refused(gold, answer):
    verdict = get_grader("math_verify").verify(gold, answer)
    assert verdict == (False, verdict.reason)
    assert not verdict.is_failure


@pytest.mark.parametrize(
    ("gold", "answer"),
    [
        ("42", "x=40+2=42"),
        (r"10\text{ kg}", r"10\text{ kilograms}"),
        ("10_2", "10_{2}"),
        (r"1 \text{ or } 2", r"x=2 \text{ or } x=1"),
        ("x=1", r"x=\frac{2}{2}"),
        (r"\frac{1}{2^{99}}", "2^{-99}"),
        (r"\pi", "3.141593"),
        ("[0,1]", r"0 \le x \le 1"),
        (r"\begin{pmatrix}1\\2\end{pmatrix}", r"\begin{bmatrix}1\\2.0\end{bmatrix}"),
        (r"50\%", "0.5"),
        (r"\text{east}", "East"),
        (r"\infty", r"+\infty"),
        ("10!", "3628800"),
    ],
)
def test_it_is_the_trick_that_is_refused(gold, answer):
    assert get_grader("math_verify").verify(gold, answer)
