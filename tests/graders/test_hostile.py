r"""Whatever a policy writes: nothing hangs, raises, grows or is left behind, and nothing is fooled.

`HOSTILE` goes through every grader, its extraction and the reward, from wherever they are called.
`GAMING` are answers made to please a lenient parser, which the default grader refuses. Real
graders, real processes.
"""

import contextlib
import json
import os
import pickle
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import NamedTuple

import pytest
import torch.multiprocessing
from hypothesis import example, given, settings
from hypothesis import strategies as st
from torch import distributed
from torch.utils.data import DataLoader

from barl_trl.graders import GRADERS, Grader, Verdict, extract_answer, get_grader
from barl_trl.graders.processes import ProcessPool
from barl_trl.hypotheses import is_truth
from barl_trl.rewards import AccuracyReward

MILLION = 10**6
TRUTH = "42"
COSTLY = r"{2000000 \choose 1000000}"  # no refusal knows this binomial
HANGS = "9^{9^{9}}"  # for a comparison that no refusal stands before

linux = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
every_grader = pytest.mark.parametrize("grader", GRADERS.values(), ids=GRADERS.keys())


def rows(cell: Callable[[int, int], str], size: int) -> str:
    return r"\\".join("&".join(cell(i, j) for j in range(size)) for i in range(size))


HOSTILE = {
    # boxes
    "unclosed box": r"\boxed{41",
    "unclosed boxes": r"\boxed{" * (MILLION // 7),
    "nested boxes": r"\boxed{" * 1000 + "41" + "}" * 1000,
    "a million nested boxes": r"\boxed{" * (MILLION // 14) + "}" * (MILLION // 14),
    "box without a brace": r"\boxed" + " " * MILLION,
    "end of the box": r"41} \boxed{42",
    "end of two boxes": r"41}} \boxed{\boxed{42",
    # size
    "million digits": "1" * MILLION,
    "million decimals": "0." + "3" * MILLION,
    "million spaces": "1" + " " * MILLION + "1",
    "million letters": "x" * MILLION,
    "million operators": "1" + "+1" * (MILLION // 2),
    "million commas": "1," * (MILLION // 2),
    "million backslashes": "\\" * MILLION,
    "million dollars": "$" * MILLION,
    "million line breaks": "\n" * MILLION,
    "million words": r"\text{or}" * (MILLION // 9),
    "million equalities": "x=" * (MILLION // 2),
    "million slashes": "1/" * (MILLION // 2),
    "million units": "1" + r"\text{ cm}" * (MILLION // 10),
    # nesting
    "million open braces": "{" * MILLION,
    "million closing braces": "}" * MILLION,
    "million open parentheses": "(" * MILLION,
    "deep braces": "{" * 50 + "1" + "}" * 50,
    "deep parentheses": "(" * 200 + "1" + ")" * 200,
    "deep brackets and bars": "[|" * 40 + "1" + "|]" * 40,
    "deep fraction": r"1+\frac{1}{" * 40 + "2" + "}" * 40,
    "deep roots": r"\sqrt{1+" * 40 + "2" + "}" * 40,
    "deep subscripts": "x_{" * 40 + "1" + "}" * 40,
    "fraction of nothing": r"\frac" * 500,
    # towers and their kin
    "tower": "9^{9^{9^9}}",
    "bare tower": "9^9^9",
    "tower in Python": "9**9**9",
    "tower in parentheses": "((9^9)^9)^9",
    "huge exponent": "7^{10000000}",
    "huge scientific exponent": "1e999999999",
    "huge power of ten": r"1\times 10^{999999999}",
    "huge power in an interval": "(0,10^{10^{10}})",
    "factorial": "1000000!",
    "factorial of a factorial": "((5!)!)!",
    "double factorials": "9!!!!!!!!!",
    "binomial": r"\binom{1000000}{500000}",
    "gamma": r"\Gamma(1000000)",
    "sum": r"\sum_{k=1}^{1000000} \frac{1}{k}",
    "product": r"\prod_{k=1}^{1000000} k",
    "integral": r"\int_0^1 x^{x^{x}} dx",
    "limit": r"\lim_{x\to 0} \frac{\sin x^{99}}{x^{99}}",
    "determinant": rf"\det\begin{{pmatrix}}{rows(lambda i, j: f'x_{i + j}', 8)}\end{{pmatrix}}",
    "equation of degree 50": "x^{50}-3x+1=0",
    "trigonometric powers": r"\sin^{99}(x)\cos^{98}(x)\tan^{97}(x)",
    # structures
    "huge matrix": rf"\begin{{pmatrix}}{rows(lambda i, j: '1', 100)}\end{{pmatrix}}",
    "matrix of letters": rf"\begin{{bmatrix}}{rows(lambda i, j: 'a', 15)}\end{{bmatrix}}",
    "huge set": r"\{" + ",".join(map(str, range(1000))) + r"\}",
    "huge list": ",".join(map(str, range(1, 100))),
    "set of a set": r"\{" * 10 + "1" + r"\}" * 10,
    "interval unions": r"\cup".join(f"({i},{i + 1})" for i in range(0, 400, 2)),
    "union of unions": r"(0,1)\cup" * 60 + "(0,1)",
    "chained relations": "<".join(["x"] * 120),
    "cases": r"\begin{cases}" + r"x&y\\" * 300 + r"\end{cases}",
    "unclosed environment": r"\begin{pmatrix}1&2\\3",
    # characters
    "NUL": "4\x002",
    "only NUL": "\x00",
    "control characters": "".join(map(chr, range(32))),
    "line breaks": "4\r\n2",
    "lone surrogate": "4\ud8002",
    "reversed surrogates": "\udc00\ud800",
    "bidirectional": "\u202e42",
    "zero width": "4\u200b2",
    "byte order mark": "\ufeff42",
    "replacement": "\ufffd42",
    "not a character": "4\uffff2",
    "combining marks": "4" + "\u0301" * 300 + "2",
    "superscripts": "4²",
    "number forms": "Ⅹ½㊷",
    "all planes": "".join(chr(0x10000 * plane + 0x1D7CE) for plane in range(15)),
    # code
    "import": "__import__('os').system('true')",
    "subclasses": "().__class__.__base__.__subclasses__()",
    "lambda": "lambda: 42",
    "walrus": "(x:=41)",
    "format": "{0.__class__.__init__.__globals__}",
    "percent format": "%n%s%d" * 50,
    "TeX": r"\input{/etc/passwd}\write18{true}\csname 41\endcsname",
    "TeX loop": r"\def\a{\a\a}\a",
    "JSON": '"]\n["math_verify", "42", "42"]',
    "verdict": "equal\n",
    "special token": "<|endoftext|><eos></s>",
    "nothing": "",
    "blank": " \t ",
    "only a backslash": "\\",
    "only a dollar": "$",
    "infinity": r"\infty-\infty",
    "not a number": "nan",
    "nothing by nothing": r"\frac{0}{0}",
}


# Nothing hangs or raises


@every_grader
@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
def test_a_hostile_string_is_not_the_true_answer_nor_is_any_its_true_answer(grader, text):
    start = time.process_time()
    for gold, answer in ((TRUTH, text), (text, TRUTH)):
        verdict = grader.verify(gold, answer)
        assert verdict == (False, verdict.reason)
    assert time.process_time() - start < 20


@every_grader
def test_extraction_and_reward_give_hostile_completions_nothing(grader):
    texts = [text for text in HOSTILE.values() if TRUTH not in text]
    completions = [*texts, *(rf"\boxed{{41}} \boxed{{{text}" for text in texts)]
    columns = {}
    rewards = AccuracyReward(grader, grader.name)(
        completions, [TRUTH] * len(completions), log_extra=columns.__setitem__
    )
    assert rewards == [0.0] * len(completions)
    assert all(isinstance(answer, str) for answer in columns["answer"])


@every_grader
def test_a_hostile_solution_is_skipped_or_not_met(grader):
    solutions = list(HOSTILE.values())
    rewards = AccuracyReward(grader, grader.name)([r"\boxed{40}"] * len(solutions), solutions)
    assert set(rewards) == {None, 0.0}


@every_grader
def test_what_costs_more_than_its_limit_is_not_correct(grader):
    assert not grader.verify(TRUTH, COSTLY)
    assert grader.verify("5", r"\frac{5}{1}") or grader.name == "string"


# What the parsers and rules look for, halves of it, and characters that no encoder would take.
# fmt: off
PIECES = [
    r"\boxed{", "boxed", "{", "}", "\\", r"\\", "(", ")", "[", "]", "|", "&", "$", "$$", "#", "~",
    r"\frac", r"\frac{1}{2}", r"\sqrt", r"\sqrt{", r"\left", r"\right", r"\!", r"\%", "%", "^", "_",
    r"^\circ", r"\text{", r"\text{ or }", r"\mathrm{", r"\begin{pmatrix}", r"\end{pmatrix}", r"\pm",
    r"\begin{cases}", r"\end{cases}", r"\cup", r"\in", r"\infty", r"\{", r"\}", r"\ldots", r"\pi",
    r"\le", r"\ne", r"\approx", r"\to", r"\sin", r"\log", r"\ln", r"\binom", r"\mod", r"\vec{",
    r"\overline{", r"\phantom{", r"\hspace{", r"\def", r"\lim", r"\mathbb{R}", r"\emptyset", "...",
    ".", ",", ";", ":", "=", "<", ">", "+", "-", "*", "/", "!", "'", '"', "0", "1", "2", "10", "42",
    "0.5", "999", "x", "y", "i", "e", "1e5", "inf", "nan", "mod", "yes", "or", "and", "percent",
    "answer is ", "final answer is $", "####", "__", "import", "lambda", " ", "\n", "\t", "\x00",
    "é", "１", "²", "½", "∞", "或", "𝟒", "\ud800", "\u202e", "\u200b",
]
# fmt: on
soup = st.lists(st.sampled_from(PIECES), max_size=12).map("".join)


@every_grader
@settings(max_examples=40, deadline=None)
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
@settings(max_examples=40, deadline=None)
@given(completions=st.lists(soup, max_size=4), solution=soup)
def test_any_completion_has_a_reward_for_any_solution(grader, completions, solution):
    logged = {}
    solutions = [solution] * len(completions)
    rewards = AccuracyReward(grader, "r")(completions, solutions, log_extra=logged.__setitem__)
    assert set(rewards) <= {None, 0.0, 1.0}
    assert {name: len(column) for name, column in logged.items()} == dict.fromkeys(
        ("solution", "answer", "verdict"), len(completions)
    )


@settings(max_examples=200, deadline=None)
@given(text=soup)
def test_what_is_extracted_can_be_boxed_again(text):
    answer = extract_answer(text)
    assert answer is None or extract_answer(rf"\boxed{{{answer}}}") == answer


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
def test_code_is_not_run(tmp_path, payload):
    marker = tmp_path / "ran"
    code = payload.format(marker)
    for grader in GRADERS.values():
        assert not grader.verify(TRUTH, code)
        assert not grader.verify(code, TRUTH)
    pool = ProcessPool(size=1)  # without the refusals that stand before it
    for comparison in ("math_verify", "qwen"):
        assert pool(comparison, TRUTH, code) != "equal"
        assert pool(comparison, code, TRUTH) != "equal"
    pool.close()
    assert not marker.exists()


def test_an_answer_is_one_request_and_no_reply():
    pool = ProcessPool(size=1)
    for text in ('2"]\n["math_verify", "1", "1', "equal\n", "\nequal\n", "print('equal')", "\x00"):
        assert pool("math_verify", "1", text) != "equal"
        assert pool("math_verify", "1", "2") == "different"
        assert pool("math_verify", r"\frac{2}{4}", "0.5") == "equal"
    pool.close()


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
        ("5", r"6 \equiv 5"), ("x=2", r"x \approx 2"), ("x=2", r"x=2 \approx 3"), ("5", "(x:=5)"),
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
    "order": [
        ("x=1,y=2", "2,1"), ("(1,2)", "(y,x)=(1,2)"), ("3:2:1", "3:2"), (r"A \in B", r"B \in A"),
        (r"\frac{dy}{dx}", r"\frac{dx}{dy}"), (r"\angle ABC", r"\angle BAC"), ("no", "on"),
        ("NE", "EN"), (r"\vec{a}\cdot\vec{b}", r"\vec{a}\times\vec{b}"),
    ],
}
STILL_ACCEPTED = {  # to be refused: a pair that is has to go from here
    # precision
    ("1", "1.0+10^{-7}i"),
    # text that says something else is dropped
    ("5", r"5？^{6}"),
    ("5", r"5\text{ halves}"),
    # two different units
    (r"3\text{ apples}", r"3\text{ oranges}"),
    (r"30^\circ\text{C}", r"30^\circ\text{F}"),
    (r"\$5", r"5\%"),
    (r"30^\circ", r"30\text{ radians}"),
    (r"\$5", r"5\text{ cents}"),
    (r"5:30\text{ pm}", r"5:30\text{ am}"),
    (r"10\text{ km north}", r"10\text{ km south}"),
    # half of a relation
    ("5", r"5 \approx 6"),
    (r"\sqrt{2}", r"\sqrt{2} \approx 7"),
    ("5", "5≈6"),
    ("x=2", r"x=2 \approx 3"),
    ("(1,2)", r"(1,2) \approx (3,4)"),
    # no name before the equals sign
    ("5", "x^2=5"),
    ("5", r"5 \approx 3 = 5"),
    # what is not seen, and marks that are not read
    (r"\frac{1}{2}", r"\frac{1_7}{2}"),
    # order
    ("x=1,y=2", "2,1"),
    ("(1,2)", "(y,x)=(1,2)"),
    (r"A \in B", r"B \in A"),
    (r"\frac{dy}{dx}", r"\frac{dx}{dy}"),
    (r"\angle ABC", r"\angle BAC"),
    ("NE", "EN"),
    (r"\vec{a}\cdot\vec{b}", r"\vec{a}\times\vec{b}"),
}
# fmt: on


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


@pytest.mark.parametrize(
    "completion",
    [
        "5",
        "The answer is 5.",
        r"\boxed 5",
        r"\\boxed{5}",
        r"\boxed{5",
        r"\boxed{5} \boxed{6",
        r"\boxed{5} \boxed{6}",
        r"\boxed{5} or \boxed{6}",
        r"\boxed{5} \fbox{6}",
        r"\boxed{5}\boxed{}",
        r"\boxed{\boxed{5}, \boxed{6}}",
        r"\boxed{\boxed{5}\boxed{6}}",
        r"\boxed{5\}",
        "\\boxed{5\n6}",
    ],
)
def test_a_reward_is_for_one_closed_last_box(completion):
    reward = AccuracyReward(get_grader("math_verify"), "accuracy_reward")
    assert reward([completion, r"\boxed{5}"], ["5", "5"]) == [0.0, 1.0]


# A comparison is limited


@pytest.fixture
def pool():
    pool = ProcessPool(size=1, cpu_seconds=1, wall_seconds=60)
    yield pool
    pool.close()


class GraderProcess(NamedTuple):
    """What stays the same when its parent ends."""

    started: int
    pid: int


def grader_processes(parent: int | None = None, mark: str = "") -> list[GraderProcess]:
    """Those that are alive, the oldest first; of one parent, with a mark in their environment."""
    if sys.platform != "linux":
        pytest.skip("looks into /proc")
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if b"graders.worker" not in (folder / "cmdline").read_bytes():  # empty for a zombie
                continue
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
            environment = (folder / "environ").read_bytes()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if parent in (None, int(fields[1])) and mark.encode() in environment:
            found.append(GraderProcess(int(fields[19]), int(folder.name)))
    return sorted(found)


def eventually(condition: Callable[[], bool], seconds: float = 30) -> bool:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


@pytest.fixture
def own_processes():
    """Those that this test's pools started."""
    before = set(grader_processes(os.getpid()))
    return lambda: [p for p in grader_processes(os.getpid()) if p not in before]


def in_thread(work: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread


def test_a_hang_on_another_thread_leaves_this_one_running(pool):
    # A parser on that thread would hold the interpreter for minutes: one tick.
    outcomes, ticks = [], 0
    thread = in_thread(lambda: outcomes.append(pool("math_verify", "1", HANGS)))
    while thread.is_alive() and ticks < 6000:
        time.sleep(0.01)
        ticks += 1
    assert outcomes == ["timeout"]
    assert ticks > 20
    assert pool("math_verify", "1/2", "0.5") == "equal"


def test_a_process_killed_while_it_compares_is_a_crash_and_others_take_over(pool, own_processes):
    assert pool("math_verify", "1/2", "0.5") == "equal"
    outcomes = []
    thread = in_thread(lambda: outcomes.append(pool("math_verify", "1", HANGS)))
    time.sleep(0.2)
    for process in own_processes():  # the spare too
        os.kill(process.pid, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):  # the pool has noticed already
            os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    thread.join(60)
    assert outcomes == ["crash"]
    assert pool("math_verify", "1/2", "0.5") == "equal"
    assert len(own_processes()) == 2, "one that compared and its spare"


def test_a_process_ends_after_its_comparisons_and_its_spare_goes_on(own_processes):
    pool = ProcessPool(size=1, recycle_after=3)
    for expected in ("equal", "different", "equal"):
        assert pool("math_verify", "1/2", {"equal": "0.5", "different": "2"}[expected]) == expected
        assert len(own_processes()) <= 2
    (spare,) = own_processes()
    assert pool("math_verify", "1/2", "0.5") == "equal"
    assert own_processes()[0] == spare
    pool.close()
    assert own_processes() == []


def test_eight_threads_share_two_processes_and_each_gets_its_own_outcome(own_processes):
    pool = ProcessPool(size=2, cpu_seconds=1, wall_seconds=60)
    answers = {f"{n}/7": ("equal" if n % 3 else "different") for n in range(1, 24)} | {
        HANGS: "timeout"
    }
    outcomes, most = {}, []

    def compare(share):
        for answer in share:
            n = answer.partition("/")[0]
            gold = rf"\frac{{{n if answers[answer] == 'equal' else n + '1'}}}{{7}}"
            outcomes[answer] = pool("math_verify", gold if n.isdigit() else "1", answer)
            most.append(len(own_processes()))

    threads = [in_thread(lambda i=i: compare(list(answers)[i::8])) for i in range(8)]
    for thread in threads:
        thread.join(120)
    pool.close()
    assert outcomes == answers
    assert max(most) <= 3, "two and their spare"


# In a process of its own: the children of a process are accounted for together.
BOMBS = r"""
import json, resource
from pathlib import Path
from barl_trl.graders.processes import ProcessPool

pool = ProcessPool(size=1, cpu_seconds=3, wall_seconds=60)
assert pool("math_verify", "1", "1") == "equal"
outcomes = [
    pool("qwen", "5", "(x+y+z+w+v+u+t+s)^{9999}"),
    pool("math_verify", "5", "(x+y+z+w+v+u+t+s)^{9999}"),
    pool("math_verify", "1", "9^{9^{9}}"),
    pool("math_verify", "1/2", "0.5"),
]
pool.close()
children = resource.getrusage(resource.RUSAGE_CHILDREN)
# Not ru_maxrss: a process starts with that of the one that started it.
own = Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()[0]
print(json.dumps([outcomes, int(own), children.ru_maxrss, children.ru_utime + children.ru_stime]))
"""


@linux
def test_memory_and_cpu_time_of_comparisons_are_bounded():
    done = subprocess.run(
        [sys.executable, "-c", BOMBS], capture_output=True, text=True, check=True, timeout=300
    )
    (*bombs, ordinary), own_kib, kib, cpu_seconds = json.loads(done.stdout)
    assert "equal" not in bombs
    assert ordinary == "equal"
    assert kib < 2**20 + 2**16, "1 GiB, and some slack"
    assert own_kib < 2**18
    assert cpu_seconds < 3 * 4 + 30, "up to 1 s over the limit each, and the start-ups"


@linux
def test_the_memory_of_this_process_does_not_grow_with_what_it_judges():
    names = ("million digits", "million words", "million backslashes", "unclosed boxes")
    texts = [rf"\boxed{{{HOSTILE[name]}}}" for name in names]

    def judge_all():
        for grader in GRADERS.values():
            AccuracyReward(grader, grader.name)(texts, [TRUTH] * len(texts))

    def resident() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()

    judge_all()
    before = resident()
    for _ in range(3):
        judge_all()
    assert resident() - before < 24 * MILLION, "less than the texts of two of the three times"


# Nobody is left behind

SCRIPT = r"""
import os, signal, threading, time
from barl_trl.graders import Grader, Verdict, extract_answer
from barl_trl.graders.processes import ProcessPool, compare

def hang(pool):
    assert pool("math_verify", "1/2", "0.5") == "equal"
    print("ready", flush=True)
    return pool("math_verify", "1", "9^{9^{9}}")
"""
INTERRUPTED = "hang(compare)"
INTERRUPTED_WITH_MANY_TO_GO = """
pool = ProcessPool(size=1, cpu_seconds=1)
judge = lambda gold, answer: Verdict(hang(pool) == "equal", "judged")
Grader("own", "1", extract_answer, judge).verify_all((str(n), "") for n in range(60))
"""
RAISING = """
signal.signal(signal.SIGUSR1, lambda *_: 1 / 0)
threading.Thread(target=hang, args=[compare], daemon=True).start()
while True:
    time.sleep(1)
"""
KILLED = "hang(ProcessPool(size=1, cpu_seconds=1))"
KILLED_WITH_A_FORK = """
pool = ProcessPool(size=1, cpu_seconds=1)
pool("math_verify", "1", "1")
if os.fork() == 0:
    time.sleep(120)
    os._exit(0)
hang(pool)
"""


def ctrl_c(process: subprocess.Popen) -> None:
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to the whole group


@pytest.fixture
def start():
    """Start a script and wait until it is in the middle of a comparison."""
    processes = []

    def start(code: str) -> subprocess.Popen:
        process = subprocess.Popen(
            [sys.executable, "-c", SCRIPT + code],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
            # a shell's background job, and so a test run in one, ignores Ctrl-C
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )
        processes.append(process)
        assert process.stdout.readline() == "ready\n"
        time.sleep(0.3)
        return process

    yield start
    for process in processes:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # also what it forked
        process.communicate()


@pytest.mark.parametrize(
    ("code", "end"),
    [
        pytest.param(INTERRUPTED, ctrl_c, id="Ctrl-C"),
        pytest.param(INTERRUPTED_WITH_MANY_TO_GO, ctrl_c, id="Ctrl-C with many to go"),
        pytest.param(RAISING, lambda p: p.send_signal(signal.SIGUSR1), id="an uncaught exception"),
        pytest.param(KILLED, subprocess.Popen.kill, id="kill -9"),
        pytest.param(KILLED_WITH_A_FORK, subprocess.Popen.kill, id="kill -9, a fork has the pipes"),
    ],
)
def test_no_grader_process_outlives_its_parent(start, code, end):
    process = start(code)
    graders = set(grader_processes(process.pid))
    assert len(graders) >= 2, "the one that hangs and a spare"
    end(process)
    process.wait(30)
    assert eventually(lambda: graders.isdisjoint(grader_processes()))


def test_after_ctrl_c_the_next_verdict_is_not_the_interrupted_one(start):
    process = start(
        "try:\n    hang(compare)\nexcept KeyboardInterrupt:\n"
        "    print(compare('math_verify', '1', '2'), compare('math_verify', '1/2', '0.5'))\n"
    )
    ctrl_c(process)
    assert process.communicate(timeout=60)[0] == "different equal\n"
    assert process.returncode == 0


# From wherever it is called

CALLS = [
    ("math_verify", r"2\sqrt{3}", r"\sqrt{12}", True),
    ("math_verify", TRUTH, COSTLY, False),
    ("qwen", r"2\sqrt{3}", r"\sqrt{12}", True),
    ("qwen", TRUTH, "(((" * 10 + TRUTH, False),
    ("math_verify", r"3\pi", r"\pi \cdot 3", True),
    ("math_verify", TRUTH, "1" * MILLION, False),
    ("string", "0.5", r"\frac12", True),
    ("math_verify", TRUTH, "4\ud8002", False),
]
EXPECTED = [correct for *_, correct in CALLS]


def call(arguments: tuple[str, str, str, bool]) -> bool:
    name, gold, answer, _ = arguments
    return GRADERS[name].verify(gold, answer).correct


@pytest.fixture
def fresh_graders(monkeypatch):
    """They remember nothing yet, nor do their copies in a forked process."""
    for name, grader in GRADERS.items():
        monkeypatch.setitem(GRADERS, name, pickle.loads(pickle.dumps(grader)))


@pytest.fixture
def others_leave_none(monkeypatch, tmp_path):
    """The graders that this test's other processes start end with them."""
    monkeypatch.setenv("BARL_TEST_MARK", str(tmp_path))
    yield
    assert eventually(lambda: not grader_processes(mark=str(tmp_path)))


def test_from_another_thread(fresh_graders):
    quick = [arguments for arguments in CALLS if COSTLY not in arguments]  # see the hang above
    verdicts = []
    in_thread(lambda: verdicts.extend(map(call, quick))).join(120)
    assert verdicts == [correct for *_, correct in quick]


def test_from_a_worker_of_a_data_loader(fresh_graders, others_leave_none):
    # A daemonic process: multiprocessing refuses to start children there.
    loader = DataLoader(CALLS, batch_size=None, collate_fn=call, num_workers=1, timeout=120)
    assert list(loader) == EXPECTED


def judge_half(rank: int, folder: Path) -> None:
    meeting_point, patience = f"file://{folder / 'meeting'}", timedelta(seconds=120)
    distributed.init_process_group(
        "gloo", init_method=meeting_point, rank=rank, world_size=2, timeout=patience
    )
    halves = [None, None]
    distributed.all_gather_object(halves, [call(arguments) for arguments in CALLS[rank::2]])
    (folder / str(rank)).write_text(json.dumps(halves))
    distributed.destroy_process_group()


def test_from_two_processes_that_judge_half_each_and_share(tmp_path, others_leave_none):
    torch.multiprocessing.spawn(judge_half, args=(tmp_path,), nprocs=2)
    for rank in "01":
        halves = json.loads((tmp_path / rank).read_text())
        assert halves == [EXPECTED[0::2], EXPECTED[1::2]]


# Failures are counted and said


def judge_slowly(gold: str, answer: str) -> Verdict:
    if answer.startswith("slow"):
        return Verdict(False, "timeout" if answer.endswith("1") else "crash")
    return Verdict(gold == answer, "equal strings")


@pytest.mark.parametrize(
    ("failures", "is_warned_of"), [(0, False), (2, False), (3, True), (100, True)]
)
def test_more_than_two_percent_of_failures_are_warned_of_once(caplog, failures, is_warned_of):
    reward = AccuracyReward(Grader("slow", "1", extract_answer, judge_slowly), "slow")
    answers = [*(f"slow {n % 2}" for n in range(failures)), *["42"] * (100 - failures)]
    metrics, columns = {}, {}
    rewards = reward(
        [rf"\boxed{{{answer}}}" for answer in answers],
        [TRUTH] * 100,
        log_metric=metrics.__setitem__,
        log_extra=columns.__setitem__,
    )
    assert rewards == [0.0] * failures + [1.0] * (100 - failures)
    assert metrics == {"verification_failures": failures / 100}
    assert sum(reason in ("timeout", "crash") for reason in columns["verdict"]) == failures
    warnings = [record for record in caplog.records if record.levelname == "WARNING"]
    assert len(warnings) == is_warned_of
    assert all(f"{failures} of 100" in record.getMessage() for record in warnings)


def test_a_failure_costs_its_completion_alone_and_a_skipped_row_is_none():
    reward = AccuracyReward(Grader("slow", "1", extract_answer, judge_slowly), "slow")
    completions = [r"\boxed{slow 1}", r"\boxed{42}", r"\boxed{42}", "42"]
    metrics = {}
    solutions = [TRUTH, TRUTH, "{", TRUTH]
    assert not is_truth("{")
    assert reward(completions, solutions, log_metric=metrics.__setitem__) == [0.0, 1.0, None, 0.0]
    assert metrics == {"verification_failures": 1 / 4}
