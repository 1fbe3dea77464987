"""Runs on every process: credits, agents and verdicts, of which two processes share what they know.

Credits: three groups of four rollouts, of which two processes share the second. Those of the first
process are long and have many hypotheses, those of the second are short and have few.
Verdicts: five groups of two, of which they share the third. The processes judge differently, as
where a comparison times out on one of them alone: to the first every answer is right, and the same
as any other.
"""

import json
import sys
from pathlib import Path

from accelerate import PartialState
from datasets import Dataset

from barl_trl import BARLConfig
from barl_trl.credit import CREDITS as CREDITS_BY_NAME
from barl_trl.graders import Grader, Verdict, extract_answer
from barl_trl.rewards import AccuracyReward
from barl_trl.steps import fixed_size_steps
from barl_trl.trainer.scoring import HypothesisScorer, share_verdicts
from barl_trl.trainer.turns import Generated
from tests.tiny import tiny_model, tiny_tokenizer

from .playing import call, played, speaking
from .rollouts import COMPLETIONS, PROBLEMS, config, given_rollouts, trainer, weights_in, weights_of
from .test_agents import agent
from .test_beliefs import KnowingGuess
from .test_text_rollouts import ROWS as TEXTS
from .test_text_rollouts import talk

CREDITS = ["rloo", "belief_critic", "barl"]
LONG = [f"{'It is long, very long. ' * n}\\boxed{{{n}}}" for n in (5, 2, 9, 1)]
GIVEN = COMPLETIONS | {"How long?": LONG, "No truth?": ["", "x", r"\boxed{1}", ""]}
TRUE = {"How long?": "9", "1+1?": "2", "No truth?": ""}
ROWS = [{"prompt": prompt, "solution": truth} for prompt, truth in TRUE.items() for _ in range(4)]


def game(truth):
    row = {"solution": str(truth), "numbers": [*map(str, range(truth + 2))]}
    return row | {"prompt": [{"role": "user", "content": f"Game {truth}"}]}


GAMES = [game(truth) for truth in (3, 5, 6) for _ in range(4)]
PLAYS = [
    [*(call("compare", number=k) for k in range(n % 3)), call("submit", number=n % 7), "Done."]
    for n in range(12)
]
SAYS = [["7", "not", "heard"], ["7", "not", "heard"], ["3", "4", "7"], ["error"]]
"""In text: the first process is done after a turn, the second after three."""
TRUTHS = ["1", "1", "2", "2", "3", "3", "4", "4", "", ""]
ANSWERS = ["1", "1", "2", "02", "3", "03", None, "04", "5", "5"]
ANSWERED = ["no idea" if answer is None else rf"\boxed{{{answer}}}" for answer in ANSWERS]


def loudness(completions, **_):
    """Rewards that differ, and none for one rollout."""
    return [None if text == "no idea" else sum(map(ord, text)) % 7 / 7 for text in completions]


def share_of(state, rows):
    """What of all rows this process has."""
    size = len(rows) // state.num_processes
    return slice(state.process_index * size, (state.process_index + 1) * size)


def weighed(folder, state, credit):
    """The rollouts' weights, and what is logged of them."""
    tokenizer, own = tiny_tokenizer(), ROWS[share_of(state, ROWS)]
    if credit == "rloo":  # it needs no truths
        own = [{"prompt": row["prompt"]} for row in own]
    fields = {"credit": credit, "log_beliefs": True, "value_normalization": "none"}
    fields |= {"per_device_train_batch_size": len(own), "max_completion_length": 256}
    given = {"rows": PROBLEMS * 2, "reward_funcs": loudness}
    given |= {"rollout_func": given_rollouts(GIVEN, cut_off=[LONG[0], COMPLETIONS["1+1?"][3]])}
    args = config(folder / credit, **fields)
    made = trainer(tiny_model(tokenizer), tokenizer, args, **given)
    weights = weights_of(made, own)
    metrics = {
        name.removeprefix("barl/"): values[-1]
        for name, values in made._metrics["train"].items()
        if name.startswith("barl/") and "_seconds" not in name
    }
    return weights, metrics


def of_agents(folder, state):
    """Weights of three games, of which two processes share the second; metrics of a benchmark."""
    here = share_of(state, GAMES)
    size = len(GAMES[here])
    fields = {"belief": "both", "hypotheses_column": "numbers", "reward_funcs": []}
    fields |= {f"per_device_{name}_batch_size": size for name in ("train", "eval")}
    # it does not divide by two: the second process repeats its last problem
    fields |= {"benchmarks": {"games": Dataset.from_list(GAMES[:11])}}
    made = agent(folder / "agents", rows=GAMES, environment_factory=KnowingGuess, **fields)
    output = played(made, GAMES[here], PLAYS[here])
    speaking(made.model, made._tokenizer, PLAYS[here])
    return weights_in(output), made.evaluate()


def in_text(folder, state):
    """Weights of four games in text, and what their environments heard."""
    here = share_of(state, SAYS)
    given = {"rows": TEXTS[here], "credit_baseline": "leave_one_out"}
    made, output = talk(folder / "text", SAYS[here], **given)
    metrics = {"environment_errors": made._metrics["train"]["barl/environment_errors"]}
    return weights_in(output), metrics | {"heard": [one.heard for one in made.environments]}


def verdicts(folder, state):
    """What a process judged, and knows in the end."""
    is_first, own, judged = state.process_index == 0, share_of(state, ANSWERS), []

    def judge(truth, answer):
        judged.append([truth, answer])
        return Verdict(is_first, "equal" if is_first else "timeout")

    reward = AccuracyReward(Grader("own", "1", extract_answer, judge), "accuracy_reward")
    generated = Generated([], [], ANSWERED[own])
    share_verdicts(reward, generated, [{"solution": truth} for truth in TRUTHS[own]])
    judged_ahead = list(judged)
    rewards = reward(ANSWERED, TRUTHS)
    args, same = BARLConfig(str(folder), use_cpu=True, bf16=False), lambda a, b: is_first
    given = tiny_tokenizer(), CREDITS_BY_NAME["barl"], args, extract_answer, same, fixed_size_steps
    scorer = HypothesisScorer(*given, end_ids=[])
    rows = [{"solution": truth} for truth in TRUTHS[own]]
    answers, sets, _ = scorer._hypotheses(generated, rows, range(len(ANSWERS))[own], 2)
    return {
        "judged ahead": judged_ahead,
        "judged": judged,
        "rewards": rewards,
        "answers": answers,
        "hypotheses": [hypotheses and hypotheses.answers for hypotheses in sets],
    }


def main(folder: str) -> None:
    state, path = PartialState(cpu=True), Path(folder)
    found = {credit: weighed(path, state, credit) for credit in CREDITS}
    found["agents"] = of_agents(path, state)
    found["text"] = in_text(path, state)
    result = {
        "weights": {credit: weights for credit, (weights, _) in found.items()},
        "metrics": {credit: metrics for credit, (_, metrics) in found.items()},
        "verdicts": verdicts(path, state),
    }
    (path / f"{state.process_index}.json").write_text(json.dumps(result))
    state.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1])
