"""What the demo of search does: evaluate, train, and evaluate again."""

import json
import statistics
from itertools import islice

import pytest
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import TrlParser

from barl_trl import BARLConfig
from barl_trl.commands.demo import TASKS, search
from barl_trl.graders import GRADERS
from barl_trl.rewards import accuracy_reward
from barl_trl.synthetic.search import TINY_MODEL_DIR, problems

SIZE = 40


@pytest.fixture
def few(monkeypatch):
    """Evaluations on a tenth of the demo's problems."""
    monkeypatch.setattr(search, "NUM_GREEDY", SIZE)


@pytest.mark.slow
def test_a_run_leaves_summary_model_and_pictures(tmp_path, few):
    options = [
        "--config",
        str(TASKS["search"].recipe),
        "--output_dir",
        str(tmp_path),
        "--max_steps",
        "2",
    ]
    options += ["--per_device_train_batch_size", "32"]
    (args,) = TrlParser((BARLConfig,)).parse_args_and_config(options)
    summary = search.run("barl", args)
    assert json.loads((tmp_path / "summary.json").read_text()) == summary
    assert summary["settings"]["consistency_beta"] == 1.0
    assert summary["settings"]["step_delimiter"] == "."
    assert summary["grader"] == GRADERS["math_verify"].label
    assert summary["seeds"] == {"training": 0, "held_out": 7}
    # The shipped model: right about half of the time, with room to explore better.
    assert 0.35 < summary["before"]["sampled_accuracy"] < 0.65
    assert 0.3 < summary["before"]["greedy_accuracy"] < 0.8
    for name in ("training.png", "model.safetensors", "trainer_state.json"):
        assert (tmp_path / name).stat().st_size > 0


def test_accuracies_are_those_of_the_grader(few, monkeypatch):
    """The demo reads the chains by itself; the grader that rewards training agrees."""
    model = AutoModelForCausalLM.from_pretrained(TINY_MODEL_DIR)
    tokenizer = AutoTokenizer.from_pretrained(TINY_MODEL_DIR)
    completed, complete_batch = [], search.complete_batch

    def watched(*args, **options):
        completions = complete_batch(*args, **options)
        completed.extend(one.token_ids for one in completions)
        return completions

    monkeypatch.setattr(search, "complete_batch", watched)
    found = search._evaluate(model, tokenizer, 100, "evaluating")
    assert len(completed) == SIZE * (1 + search.SAMPLES_PER_PROBLEM)
    held_out = [*islice(problems(search.HELD_OUT_SEED, held_out=True), SIZE)]
    texts = [tokenizer.decode(chain) for chain in completed[:SIZE]]  # the greedy ones
    rewards = accuracy_reward(texts, [problem.solution for problem in held_out])
    assert found["greedy_accuracy"] == statistics.fmean(rewards)
    assert found["greedy_standard_error"] == pytest.approx(statistics.stdev(rewards) / SIZE**0.5)
    assert found["sampled_accuracy"] != found["greedy_accuracy"]
    assert max(map(len, completed)) <= 100
