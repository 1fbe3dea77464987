"""Short trainings on search problems: what they are trained and tested on, and what is kept."""

import math
import re
import sys
from functools import partial
from itertools import islice

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from barl_trl.synthetic.search import TINY_MODEL_DIR, SearchProblem
from experiments.credit.search import runs as search_runs
from experiments.credit.search.runs import (
    CONDITIONS,
    SearchCondition,
    run,
    training_problems,
)
from experiments.credit.search.short_training import ShortTraining
from experiments.sampling import sample

QUICK = SearchCondition(3, 24, {"accuracy": (3, 40), "short": (4, 10)}, steps=1)
FEW = 12

if __name__ == "__mp_main__":  # in a process that was spawned here
    CONDITIONS["quick"], search_runs.EVALUATED = QUICK, FEW


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    """A condition of one short step, here and in spawned processes, which import what is main."""
    monkeypatch.setitem(CONDITIONS, "quick", QUICK)
    monkeypatch.setattr(search_runs, "EVALUATED", FEW)
    monkeypatch.setitem(sys.modules, "__main__", sys.modules[__name__])


@pytest.fixture
def set_steps(monkeypatch):
    """Sets the number of steps; evaluations are at each."""

    def change(steps):
        tests = {"candidates": 3, "tokens": 24, "tests": QUICK.tests}
        monkeypatch.setitem(CONDITIONS, "quick", SearchCondition(**tests, steps=steps))
        every = partial(ShortTraining, prompts=1, group_size=2, evaluate_every=1)
        monkeypatch.setattr(search_runs, "ShortTraining", every)

    return change


@pytest.fixture
def tested(monkeypatch):
    """What the evaluations that follow sample: a pair of problems and completions for each."""
    seen = []

    def watched(model, prompts, **settings):
        completions = sample(model, prompts, **settings)
        texts = [TOKENIZER.decode(ids, skip_special_tokens=True) for ids in completions]
        seen.append(([parsed(ids) for ids in prompts], texts))
        return completions

    monkeypatch.setattr(search_runs, "sample", watched)
    return seen


TOKENIZER = AutoTokenizer.from_pretrained(TINY_MODEL_DIR)


def parsed(prompt_ids):
    prompt = TOKENIZER.decode(prompt_ids)
    *candidates, slope, offset, target = map(int, re.findall(r"\d+", prompt))
    problem = SearchProblem(tuple(candidates), slope, offset, target)
    assert problem.prompt == prompt
    return problem


# A run


def test_a_record_has_every_test_before_and_behind_the_training(tested):
    record = run("quick", "progress", 5)
    first, last = record.pop("evaluations")
    assert record == {"condition": "quick", "arm": "progress", "seed": 5}
    names = {"step", "reward", "accuracy", "accuracy/tokens", "short", "short/tokens"}
    assert first.keys() == last.keys() == names
    assert (first["step"], last["step"]) == (0, 1)
    assert math.isnan(first["reward"])
    assert 0 <= last["reward"] <= 1
    measured = [(entry, name) for entry in (first, last) for name in QUICK.tests]
    for (entry, name), (problems, texts) in zip(measured, tested, strict=True):
        pairs = list(zip(problems, texts, strict=True))
        assert len(pairs) == FEW
        assert {len(problem.candidates) for problem in problems} == {QUICK.tests[name][0]}
        right = sum(rf"\boxed{{{problem.solution}}}" in text for problem, text in pairs)
        assert entry[name] == right / FEW
        assert entry[f"{name}/tokens"] <= QUICK.tests[name][1]
    assert 0 < first["accuracy"] < 1


def test_arms_of_a_seed_are_tested_alike_on_held_out_problems_and_seeds_are_not(set_steps, tested):
    set_steps(0)
    records = [run("quick", arm, seed) for arm, seed in [("grpo", 0), ("barl", 0), ("grpo", 1)]]
    same, other_arm, other_seed = (tested[n : n + 2] for n in (0, 2, 4))
    assert other_arm == same
    assert repr(records[1]["evaluations"]) == repr(records[0]["evaluations"])
    for one, other in zip(same, other_seed, strict=True):
        assert not set(one[0]) & set(other[0])
        assert len(set(one[0])) == FEW
        assert all(problem.held_out for problem in one[0])


# Training problems


def trained_on(condition, seed, number):
    stream = training_problems(TOKENIZER, CONDITIONS[condition], seed)
    found = list(islice(stream, number))
    problems = [parsed(problem.prompt_ids) for problem in found]
    assert [problem.solution for problem in found] == [p.solution for p in problems]
    assert {len(problem.candidates) for problem in problems} == {CONDITIONS[condition].candidates}
    assert not any(problem.held_out for problem in problems)
    return problems


@pytest.mark.parametrize("condition", ["standard", "cut_off"])
def test_problems_are_always_new_and_those_of_the_seed(condition):
    problems = trained_on(condition, 0, 200)
    assert len(set(problems)) == 200
    assert trained_on(condition, 0, 200) == problems
    assert not set(trained_on(condition, 1, 200)) & set(problems)


def test_memorisation_has_the_same_problems_over_and_over_in_other_orders():
    problems = trained_on("memorisation", 0, 4 * 32)
    epochs = [problems[n : n + 32] for n in range(0, 4 * 32, 32)]
    assert {frozenset(epoch) for epoch in epochs} == {frozenset(trained_on("standard", 0, 32))}
    assert len(set(map(tuple, epochs))) == 4
    assert trained_on("memorisation", 0, 4 * 32) == problems
    assert not set(trained_on("memorisation", 1, 32)) & set(problems)


# Files


def test_checkpoints_are_the_models_of_all_evaluations_but_the_first(tmp_path, set_steps, tested):
    set_steps(2)
    run("quick", "grpo", 7, checkpoints=tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"step-1", "step-2"}
    problems, expected = tested[-2]
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "step-2")
    completions = sample(
        AutoModelForCausalLM.from_pretrained(tmp_path / "step-2"),
        tokenizer([problem.prompt for problem in problems])["input_ids"],
        max_new_tokens=QUICK.tests["accuracy"][1],
        end_ids=[tokenizer.eos_token_id, tokenizer.pad_token_id],
        generator=torch.Generator().manual_seed(7),
    )
    assert tokenizer.batch_decode(completions, skip_special_tokens=True) == expected
