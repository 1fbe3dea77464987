"""Greedy evaluation on benchmarks during training: right numbers, and training as without it."""

import json
import sys
from itertools import islice
from statistics import fmean

import pytest
import torch
from datasets import Dataset
from transformers import AutoModelForCausalLM, AutoTokenizer, set_seed

from barl_trl import BARLTrainer
from barl_trl.graders import grader
from barl_trl.graders.processes import ProcessPool
from barl_trl.rewards import accuracy_reward, format_reward
from barl_trl.synthetic.search import TINY_MODEL_DIR, problems, search_rows
from barl_trl.trainer.evaluation import check_benchmarks

from .rollouts import config

HELD_OUT = list(islice(problems(3, held_out=True), 5))
BENCHMARKS = {
    "search": Dataset.from_list([{"prompt": p.prompt, "solution": p.solution} for p in HELD_OUT]),
    "first": Dataset.from_list([{"prompt": HELD_OUT[0].prompt, "solution": HELD_OUT[0].solution}]),
}
NAMES = [f"eval_{name}/{kind}" for name in BENCHMARKS for kind in ("accuracy", "mean_tokens")]
SETTINGS = {"max_completion_length": 64, "max_steps": 4, "learning_rate": 1e-3}
SETTINGS |= {"eval_strategy": "steps", "eval_steps": 2, "per_device_eval_batch_size": 4}


@pytest.fixture
def make_search(make, tmp_path):
    data = {"train_dataset": Dataset.from_list(search_rows(16, seed=0)), "rollout_func": None}
    data |= {"processing_class": AutoTokenizer.from_pretrained(TINY_MODEL_DIR)}

    def make_search(*, benchmarks=BENCHMARKS, name="run", **settings):
        set_seed(0)
        model = AutoModelForCausalLM.from_pretrained(TINY_MODEL_DIR)
        return make(tmp_path / name, model, benchmarks=benchmarks, **data, **SETTINGS | settings)

    return make_search


def test_each_of_several_evaluation_sets_has_a_reward_of_its_own(make, tmp_path):
    """And the folder into which an evaluation wrote is that of the run that follows."""
    rows = Dataset.from_list([{"prompt": "1+1?", "solution": "2"}] * 2)
    settings = {"eval_strategy": "steps", "save_strategy": "best", "max_completion_length": 16}
    settings |= {"metric_for_best_model": "eval_a_length/mean", "log_completions": True}

    def length(completion_ids, log_metric, **kwargs):
        log_metric("length/mean", fmean(map(len, completion_ids)))
        return [0.0] * len(completion_ids)

    given = {"train_dataset": rows, "eval_dataset": {"a": rows, "b": rows}, "rollout_func": None}
    made = make(reward_funcs=length, **given, **settings)
    assert not any("barl" in name for name in made.evaluate())
    assert [*tmp_path.rglob("completions_*.parquet")]
    made.train()
    logged = {name: value for entry in made.state.log_history for name, value in entry.items()}
    assert {"eval_a_reward", "eval_b_reward", "eval_reward"} <= logged.keys()
    assert logged["eval_b_length/mean"] == logged["eval_length/mean"]
    assert made.state.best_metric is not None


def greedily(model, row):
    """Reward and tokens, the end of the turn left out, of one problem's most likely completion."""
    tokenizer = AutoTokenizer.from_pretrained(TINY_MODEL_DIR)
    ids, prompt = [], tokenizer.encode(row["prompt"])
    while len(ids) < SETTINGS["max_completion_length"] and tokenizer.eos_token_id not in ids:
        with torch.no_grad():
            ids.append(model(torch.tensor([prompt + ids])).logits[0, -1].argmax().item())
    text = tokenizer.decode(ids, skip_special_tokens=True)
    tokens = len(ids) - (ids[-1] == tokenizer.eos_token_id)
    return accuracy_reward([text], [row["solution"]])[0], tokens


def parameters(trainer):
    return {name: value.clone() for name, value in trainer.model.state_dict().items()}


def test_metrics_are_those_of_the_most_likely_completions(make_search):
    """Beside TRL's sampled evaluation of the other rows, and by what is read of a completion."""
    trainer = make_search(num_generations_eval=2)
    trainer.eval_dataset = BENCHMARKS["search"]
    metrics = trainer.evaluate()
    means = []
    for name, rows in BENCHMARKS.items():
        rewards, tokens = zip(*(greedily(trainer.model, row) for row in rows), strict=True)
        means.append(sum(rewards) / len(rows))
        assert metrics[f"eval_{name}/accuracy"] == pytest.approx(means[-1])
        assert metrics[f"eval_{name}/mean_tokens"] == pytest.approx(sum(tokens) / len(rows))
    assert 0 < means[0] < 1
    assert metrics["eval_accuracy"] == pytest.approx(sum(means) / 2)
    assert {"eval_runtime", "eval_reward"} <= metrics.keys()
    # cut off, the completions have numbers and no box
    settings = {"benchmarks": {"search": BENCHMARKS["search"]}, "max_completion_length": 30}
    strict, lenient = make_search(**settings), make_search(**settings, extraction="last_number")
    assert strict.evaluate()["eval_accuracy"] < lenient.evaluate()["eval_accuracy"]


@pytest.mark.slow
def test_training_goes_on_as_without_evaluation(make_search, tmp_path):
    """Also where it is resumed."""
    settings = {"save_strategy": "steps", "save_steps": 2, "steps_per_generation": 2}
    runs = {}
    for name, changed in {"with": {}, "without": {"eval_strategy": "no"}}.items():
        benchmarks = BENCHMARKS if name == "with" else None
        runs[name] = make_search(benchmarks=benchmarks, name=name, **settings, **changed)
        runs[name].train()
    resumed = make_search(name="with", **settings)
    resumed.train(str(tmp_path / "with" / "checkpoint-2"))
    for run in (runs["without"], resumed):
        torch.testing.assert_close(parameters(runs["with"]), parameters(run), rtol=0, atol=0)
    logs = [[log for log in run.state.log_history if "reward" in log] for run in runs.values()]
    for metric in ("num_tokens", "completions/mean_length", "reward", "barl/value"):
        assert [log[metric] for log in logs[0]] == [log[metric] for log in logs[1]]
    evaluated = [
        [log for log in run.state.log_history if "eval_accuracy" in log]
        for run in (runs["with"], resumed)
    ]
    assert [log["step"] for log in evaluated[0]] == [2, 4] and {*NAMES} <= {*evaluated[0][0]}
    assert json.dumps(evaluated[0][-1]) == json.dumps(evaluated[1][-1])


@pytest.mark.parametrize("rows", [[{"problem": "1+1?", "answer": "2"}], []])
def test_benchmarks_that_cannot_be_evaluated_are_refused(rows):
    with pytest.raises(ValueError, match="'mine'"):
        check_benchmarks(BENCHMARKS | {"mine": Dataset.from_list(rows)})


def test_graders_that_are_needed_start_before_a_model_is_loaded(monkeypatch, tmp_path):
    """The default grader, too, where it judges benchmarks or merges hypotheses."""
    monkeypatch.setattr(grader, "compare", ProcessPool())
    monkeypatch.setattr(sys, "executable", "/bin/false")
    rows = Dataset.from_list(search_rows(2, seed=0))
    equivalence = {"reward_funcs": format_reward, "answer_equivalence": str.__eq__}
    for kwargs in ({"reward_funcs": ["string", "qwen"]}, equivalence | {"benchmarks": BENCHMARKS}):
        with pytest.raises(RuntimeError, match="grader"):
            BARLTrainer("nowhere", args=config(tmp_path), train_dataset=rows, **kwargs)
    model = str(TINY_MODEL_DIR)
    with pytest.raises(RuntimeError, match="grader"):
        BARLTrainer(model, format_reward, config(tmp_path), rows)
    BARLTrainer(model, args=config(tmp_path), train_dataset=rows, **equivalence)
