"""The demo task and its model: well-posed problems, an honest parser, right sums."""

import math
import re
from itertools import islice, pairwise

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from barl_trl.plausibility.elicitation import DEFAULT_ELICITATION as ELICITATION
from barl_trl.steps import delimited_steps
from barl_trl.synthetic.search import (
    STEP_DELIMITER,
    TINY_MODEL_DIR,
    SearchProblem,
    observation_likelihood,
    problems,
    search_rows,
)

PROBLEM = SearchProblem((3, 18, 26, 21, 7, 19, 4), slope=3, offset=7, target=70)
LATEX = "What is $\\frac{12}{3} + \\sqrt{49}$?\n\nGive it in \\boxed{}.  Où est-ce, 你好 €5?"


def take(count, seed, *, held_out=False):
    return list(islice(problems(seed, held_out=held_out), count))


@pytest.fixture(scope="module")
def tokenizer():
    return AutoTokenizer.from_pretrained(TINY_MODEL_DIR, local_files_only=True)


@pytest.fixture(scope="module")
def model():
    return AutoModelForCausalLM.from_pretrained(TINY_MODEL_DIR, local_files_only=True)


# Problems


@pytest.mark.parametrize("held_out", [False, True])
def test_exactly_one_candidate_satisfies_the_equation(held_out):
    for problem in take(500, seed=1, held_out=held_out):
        totals = [problem.slope * number + problem.offset for number in problem.candidates]
        place = problem.candidates.index(int(problem.solution))
        assert [n for n, total in enumerate(totals) if total == problem.target] == [place]
        assert len(set(problem.candidates)) == 7


def test_solution_is_at_every_place_of_the_list():
    places = [p.candidates.index(int(p.solution)) for p in take(1400, seed=2)]
    counts = [places.count(place) for place in range(7)]
    assert min(counts) > 150 and max(counts) < 250  # 200 expected; 4 standard deviations


def test_training_and_held_out_problems_share_no_equation_and_stay_apart():
    """The shipped model was trained on one side: another hash would leak the other side."""

    def equations(held_out):
        return {(p.slope, p.offset, p.target) for p in take(5000, seed=5, held_out=held_out)}

    train, held_out = equations(False), equations(True)
    assert train.isdisjoint(held_out)
    assert len(held_out) == 47  # of 396: all that there are
    held_out = [x for x in range(2, 21) if SearchProblem((x,), 2, 1, 2 * x + 1).held_out]
    assert held_out == [9, 12, 15]


# The parser

NO_18 = "Try 18: 3*18 + 7 = 61, no."
NO_3 = "Try 3: 3*3 + 7 = 16, no."
YES = "Try 21: 3*21 + 7 = 70, yes."
ANSWER = "\nBased on the above reasoning, the final answer is \\boxed{21}."


# What lines rule out


def test_rows_may_list_the_candidates_and_a_problem_is_read_from_its_prompt():
    [row], [problem] = search_rows(1, seed=6, with_candidates=True), take(1, seed=6)
    expected = {"prompt": problem.prompt, "solution": problem.solution}
    assert row == expected | {"candidates": [*map(str, problem.candidates)]}
    for p in take(50, seed=7) + take(50, seed=7, held_out=True):
        assert SearchProblem.of_prompt(p.prompt) == p
    assert SearchProblem.of_prompt("What is 3 * 4?") is None


def ruled_out(problem, steps, hypotheses=None):
    """For each step the hypotheses that it rules out; all else must be 0."""
    texts = hypotheses or [str(number) for number in problem.candidates]
    [output] = observation_likelihood([problem.prompt], [texts], [steps], solution=["21"])
    assert {number for row in output for number in row} <= {0.0, -math.inf}
    return [[text for text, number in zip(texts, row, strict=True) if number < 0] for row in output]


def test_a_true_line_rules_numbers_out():
    others = ["3", "18", "26", "7", "19", "4"]
    assert ruled_out(PROBLEM, [NO_18, f"\n{NO_3}", f"\n{YES}"]) == [["18"], ["3"], others]
    assert ruled_out(PROBLEM, [f"{NO_18}\n{NO_3}"]) == [["3", "18"]]  # a step of two lines
    assert ruled_out(PROBLEM, [NO_18], ["21", "none of them"]) == [[]]


def test_other_text_says_nothing():
    """Nor do lines that are not true: they would say what the policy likes."""
    texts = ["", "Let me think.", ANSWER, "Try 18: 3*18 + 7", f"I could {NO_18}"]
    texts += ["Try 18: 3*18 + 7 = 70, yes.", "Try 18: 3*18 + 7 = 61, yes."]
    texts += ["Try 21: 3*21 + 7 = 70, no.", "Try 21: 3*21 + 7 = 71, no."]
    for text in [*texts, "Try 18: 2*18 + 7 = 43, no."]:
        assert ruled_out(PROBLEM, [text]) == [[]]


def test_a_line_counts_in_the_step_that_completes_it():
    steps = ["Try 18: 3*1", f"8 + 7 = 61, no.\n{NO_3[:9]}", NO_3[9:]]
    assert ruled_out(PROBLEM, steps) == [[], ["18"], ["3"]]


def test_a_chain_leaves_what_was_not_tried(tokenizer):
    """In the steps of the demo."""
    lines = [PROBLEM.try_line(number) for number in (18, 3, 4)]
    ids = tokenizer.encode("\n".join(lines) + ANSWER)
    ends = delimited_steps(ids, decode=tokenizer.decode, delimiter=STEP_DELIMITER)
    steps = [tokenizer.decode(ids[start:end]) for start, end in pairwise([0, *ends])]
    assert ruled_out(PROBLEM, steps) == [["18"], ["3"], ["4"], []]


# The tokenizer


@pytest.mark.parametrize(
    "text",
    [PROBLEM.prompt, f"{NO_18}\n{YES}{ANSWER}", LATEX, "", " a , b .\n\n c  ", "\\boxed{2{1}}."],
)
def test_tokenizer_round_trips(tokenizer, text):
    assert tokenizer.decode(tokenizer.encode(text)) == text


def test_elicitation_and_answer_have_the_same_ids_alone_and_in_the_text(tokenizer):
    chain = f"{NO_18}\n{YES}"
    for solution in ("21", "3", "\\frac{1}{2}"):
        parts = [PROBLEM.prompt, chain, ELICITATION, f"{{{solution}}}."]
        apart = [token for part in parts for token in tokenizer.encode(part)]
        assert apart == tokenizer.encode("".join(parts))


# The model


def test_greedy_chains_are_well_formed_and_their_sums_right(model, tokenizer):
    held_out = take(8, seed=8, held_out=True)
    inputs = tokenizer([p.prompt for p in held_out], return_tensors="pt", padding=True)
    with torch.no_grad():
        output = model.generate(**inputs, do_sample=False, max_new_tokens=128)
    made = output[:, inputs["input_ids"].shape[1] :]
    completions = tokenizer.batch_decode(made, skip_special_tokens=True)
    right = tries = 0
    for problem, text in zip(held_out, completions, strict=True):
        tried = [int(number) for number in re.findall(r"^Try (\d+): ", text, re.MULTILINE)]
        assert re.search(re.escape(ELICITATION) + r"\{\d+\}\.\Z", text)
        lines = text.partition(ELICITATION)[0].split("\n")
        assert len(lines) == len(tried), "each line tries a number"
        tries += len(tried)
        right += sum(map(str.__eq__, lines, map(problem.try_line, tried)))
    assert tries >= 8 and right >= 0.9 * tries
