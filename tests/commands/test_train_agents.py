"""`barl train` with tools, an environment or a rollout function, by dotted paths."""

import json
import re

import pytest

from barl_trl import cli

from ..tiny import tiny_model
from ..trainer.playing import agent_tokenizer, call, taught
from ..trainer.test_agents import look

QUESTION = [{"role": "user", "content": "3 * 4?"}]
MODULE = '''
def look(key: int) -> str:
    """Look up a key.

    Args:
        key: The key.

    Returns:
        Its value.
    """
    return "12"

class Game:
    def reset(self, hint, **row):
        self.hint, self.answer = hint, None

    def look(self, key: int) -> str:
        """Look up a key.

        Args:
            key: The key.

        Returns:
            Its value.
        """
        self.answer = self.hint
        return "12"

    def get_reward(self) -> float:
        return float(self.answer == "12")

class KnowingGame(Game):
    def _observation_log_likelihoods(self, hypotheses, steps):
        return [[0.0 if text == "12" else -9.0 for text in hypotheses] for _ in steps]

def near(answer, hypothesis):
    return float(answer == hypothesis)

def likelihood(steps, hypotheses, **columns):
    return [[[-1.0] * len(h) for _ in s] for s, h in zip(steps, hypotheses)]

def play(prompts, trainer):
    ids = trainer.processing_class.encode("Is it 3?<|im_end|>")
    others, last = trainer.processing_class.encode("No."), ids
    return {
        "prompt_ids": [ids] * len(prompts),
        "completion_ids": [ids + others + last] * len(prompts),
        "env_mask": [[1] * len(ids) + [0] * len(others) + [1] * len(last)] * len(prompts),
        "logprobs": None,
        "answer": ["12"] * len(prompts),
    }
'''


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A model that calls the tool, rows with a column of their own, and a module of the user's."""
    folder = tmp_path_factory.mktemp("agents")
    tokenizer = agent_tokenizer()
    dialog = [*QUESTION, {"role": "assistant", "content": call("look", key=1)}]
    dialog += [{"role": "tool", "content": "12"}, {"role": "assistant", "content": r"\boxed{12}"}]
    model = tiny_model(tokenizer, std=0.05)
    model.config.max_position_embeddings = 1024
    taught(model, tokenizer, [dialog], tools=[look], steps=120).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    row = {"problem": "3 * 4?", "answer": "12", "hint": "12", "numbers": ["12", "7"]}
    (folder / "rows.jsonl").write_text("\n".join([json.dumps(row)] * 4))
    (folder / "my_agents.py").write_text(MODULE)
    return folder


def recipe(folder, output_dir):
    return {
        "model_name_or_path": str(folder),
        "dataset_name": str(folder / "rows.jsonl"),
        "output_dir": str(output_dir),
        "system_prompt": None,
        "use_cpu": True,
        "bf16": False,
        "per_device_train_batch_size": 4,
        "num_generations": 4,
        "max_completion_length": 200,
        "max_tool_calling_iterations": 2,
        "max_steps": 1,
        "save_strategy": "no",
        "report_to": "none",
        "disable_tqdm": True,
    }


@pytest.mark.parametrize(
    "agent",
    [
        {"tools": ["my_agents.look"]},
        {
            "environment_factory": "my_agents.Game",
            "reward_funcs": [],
            "credit": "belief_critic",
            "eval_benchmarks": "games=rows.jsonl",
            "eval_strategy": "steps",
            "eval_steps": 1,
        },
        {"rollout_func": "my_agents.play"},
        {
            "environment_factory": "my_agents.KnowingGame",
            "reward_funcs": [],
            "credit": "bayes",
            "belief": "task",
            "hypotheses_column": "numbers",
            "outcome_under": "my_agents.near",
        },
    ],
    ids=["tools", "environment", "rollout_func", "belief"],
)
def test_agents_of_a_recipe(folder, tmp_path, monkeypatch, agent):
    monkeypatch.chdir(folder)
    settings = recipe(folder, tmp_path / "run") | agent
    (tmp_path / "recipe.yaml").write_text(json.dumps(settings))  # JSON is YAML
    cli.main(["train", "--config", str(tmp_path / "recipe.yaml")])
    logs = json.loads((tmp_path / "run" / "trainer_state.json").read_text())["log_history"]
    log = next(one for one in logs if "reward" in one)
    assert any("eval_games/accuracy" in one for one in logs) == ("eval_benchmarks" in agent)
    assert log["barl/turns_per_rollout"] > 1
    assert log["reward"] > 0
    if agent.get("belief"):
        assert log["barl/entropy_after"] < log["barl/entropy_before"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--tools", "look"], "tools must be the dotted path of a callable, got 'look'"),
        (["--tools", "my_agents.lok"], "callable in my_agents, got 'my_agents.lok': did you mean"),
        (
            ["--tools", "my_agents.look", "--observation_likelihood", "my_agents.likelihood"],
            "belief must be 'task' or 'both' with observation_likelihood, got 'model'",
        ),
        (["--observation_likelihood", "like"], "observation_likelihood must be the dotted path"),
        (["--environment_factory", "none.Game"], "environment_factory must be importable, got 'n"),
        (
            ["--tools", "my_agents.look", "--rollout_func", "my_agents.play"],
            "rollout_func must be left out with tools and environments, got 'my_agents.play'",
        ),
        (
            ["--tools", "my_agents.look", "--prompt_template", "{problem}"],
            "prompt_template must be left out with tools and environments, got '{problem}'",
        ),
    ],
)
def test_mistakes_are_told_in_one_line(folder, tmp_path, monkeypatch, options, message):
    monkeypatch.chdir(folder)
    (tmp_path / "recipe.yaml").write_text(json.dumps(recipe(folder, tmp_path / "run")))
    with pytest.raises(SystemExit, match=re.escape(message)) as ended:
        cli.main(["train", "--config", str(tmp_path / "recipe.yaml"), *options])
    assert str(ended.value).startswith("barl train: ")
    assert "\n" not in str(ended.value)
