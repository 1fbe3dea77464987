"""Public environments as PyPI has them: each example runs in an environment of its own."""

import json
import re
import subprocess
import sys
import sysconfig
from itertools import permutations

import pytest

from barl_trl.trainer.records import FOLDER, read_records

from ..paths import ROOT

pytestmark = pytest.mark.slow
EXAMPLES = ROOT / "examples" / "environments"


@pytest.fixture(scope="module")
def python_with(tmp_path_factory):
    """A Python that has a package of PyPI beside those of this one."""
    made = {}

    def make(package):
        if package not in made:
            folder = tmp_path_factory.mktemp("env")
            subprocess.run([sys.executable, "-m", "venv", folder], check=True)
            made[package] = folder / "bin" / "python"
            [own] = folder.glob("lib/*/site-packages")
            here = sysconfig.get_path("purelib")
            (own / "here.pth").write_text(f"import site; site.addsitedir({here!r})\n")
            install = [made[package], "-m", "pip", "install", "--quiet", package]
            subprocess.run(install, check=True)
        return made[package]

    return make


@pytest.fixture
def run(python_with, tmp_path):
    def example(name, package):
        """The logs and the rollouts of an example, of which the page can be made."""
        command = [python_with(package), EXAMPLES / f"{name}.py"]
        subprocess.run(command, check=True, timeout=400, cwd=tmp_path)
        folder = tmp_path / "outputs" / "run"
        subprocess.run([sys.executable, "-m", "barl_trl", "inspect", folder], check=True)
        state = json.loads((folder / "checkpoint-2" / "trainer_state.json").read_text())
        rollouts = [*read_records(folder / FOLDER)]
        assert len(rollouts) == 16
        return [log for log in state["log_history"] if "loss" in log], rollouts

    return example


@pytest.mark.parametrize(
    ("name", "package", "least"),
    [("textarena_guess", "textarena", 0.1), ("gem_guess", "gem-llm", 0.0)],
)
def test_games_in_text_reward_turns(run, name, package, least):
    logs, rollouts = run(name, package)
    assert all(log["barl/environment_errors"] == 0 for log in logs)
    assert all(log["barl/turns_per_rollout"] > 1 for log in logs)
    for rollout in rollouts:
        told = [one for one in rollout["turn_rewards"] if one is not None]
        assert rollout["rewards"] == [pytest.approx(sum(told), abs=1e-6)]
        hints = len(re.findall("target number is (?:higher|lower)", "".join(rollout["tokens"])))
        assert sum(abs(one - least) < 1e-6 for one in told) >= hints
    assert any(any(rollout["turn_rewards"]) for rollout in rollouts)


def left(codes, text):
    """The codes that would have got the pegs of each reply in a text."""
    for guess, *told in re.findall(r"Submitted \[([^]]+)\]\D+(\d) black\D+(\d) white", text):
        guess, (black, white) = guess.split(), map(int, told)
        codes = [
            code
            for code in codes
            if sum(code[n] == guess[n] for n in range(4)) == black
            and sum(one in code for one in guess) == black + white
        ]
    return codes


def test_the_belief_in_mastermind_is_uniform_over_the_codes_that_are_left(run):
    logs, rollouts = run("textarena_mastermind", "textarena")
    for rollout in rollouts:
        text, ends = rollout["tokens"], [0, *rollout["step_ends"]]
        for end, belief in zip(ends, rollout["posterior"], strict=True):
            codes = left([*permutations("123456", 4)], "".join(text[:end]))
            want = [tuple(code) in codes for code in rollout["hypotheses"]]
            assert belief == pytest.approx([one / len(codes) for one in want], abs=1e-6)
        assert rollout["solution"] in rollout["hypotheses"] and len(rollout["hypotheses"]) == 360
    assert all(log["barl/entropy_before"] > 5.88 > 4 > log["barl/entropy_after"] for log in logs)


REPLY = r'"number": (\d+)}}.+?<tool_response>\n(\w+)'


def test_openenvs_client_is_an_environment(run):
    logs, rollouts = run("openenv_number", "openenv")
    assert all(log["tools/failure_frequency"] == 0 for log in logs)
    asked = [rollout for rollout in rollouts if len(rollout["turn_rewards"]) > 1]
    assert asked
    for rollout in asked:
        *of_questions, _ = rollout["turn_rewards"]
        assert of_questions == [pytest.approx(-0.01)] * len(of_questions)
        told = re.findall(REPLY, "".join(rollout["tokens"]), re.DOTALL)
        beliefs = zip(rollout["hypotheses"], rollout["posterior"][-1], strict=True)
        for h, p in beliefs:
            assert (p > 0) == all((int(h) >= int(q)) == (a == "yes") for q, a in told)


def test_reasoning_gym_scores(run):
    _, rollouts = run("reasoning_gym_sums", "reasoning-gym")
    judged = [rollout for rollout in rollouts if (rollout["answer"] or "").isdigit()]
    assert judged
    for rollout in judged:  # it gives some for an answer that holds the right one
        answer, right = rollout["answer"], rollout["solution"]
        want = len(right) / len(answer) if right in answer else 0.0
        assert rollout["rewards"] == [pytest.approx(want)]
