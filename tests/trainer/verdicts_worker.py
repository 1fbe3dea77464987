"""Runs on every process: five groups of two rollouts, of which two processes share the third.

The processes judge differently, as where a comparison times out on one of them alone: to the first
every answer is right, and the same as any other.
"""

import json
import sys
from pathlib import Path

from accelerate import PartialState

from barl_trl import BARLConfig
from barl_trl.credit import CREDITS
from barl_trl.graders import Grader, Verdict, extract_answer
from barl_trl.rewards import AccuracyReward
from barl_trl.steps import fixed_size_steps
from barl_trl.trainer.scoring import HypothesisScorer, share_verdicts
from barl_trl.trainer.turns import Generated
from tests.tiny import tiny_tokenizer

TRUTHS = ["1", "1", "2", "2", "3", "3", "4", "4", "", ""]
ANSWERS = ["1", "1", "2", "02", "3", "03", None, "04", "5", "5"]
COMPLETIONS = ["no idea" if answer is None else rf"\boxed{{{answer}}}" for answer in ANSWERS]


def main(folder: str) -> None:
    state = PartialState(cpu=True)
    is_first, size = state.process_index == 0, len(ANSWERS) // state.num_processes
    own = slice(state.process_index * size, (state.process_index + 1) * size)
    judged = []

    def judge(truth, answer):
        judged.append([truth, answer])
        return Verdict(is_first, "equal" if is_first else "timeout")

    reward = AccuracyReward(Grader("own", "1", extract_answer, judge), "accuracy_reward")
    generated = Generated([], [], COMPLETIONS[own])
    share_verdicts(reward, generated, TRUTHS[own])
    judged_ahead = list(judged)
    rewards = reward(COMPLETIONS, TRUTHS)
    places = range(len(ANSWERS))[own]
    scorer = HypothesisScorer(
        tiny_tokenizer(),
        CREDITS["barl"],
        BARLConfig(folder, use_cpu=True, bf16=False),
        extract_answer,
        lambda a, b: is_first,
        fixed_size_steps,
        end_ids=[],
    )
    rows = [{"solution": truth} for truth in TRUTHS[own]]
    answers, sets, _ = scorer._hypotheses(generated, rows, places, 2)
    result = {
        "judged ahead": judged_ahead,
        "judged": judged,
        "rewards": rewards,
        "answers": answers,
        "hypotheses": [hypotheses and hypotheses.answers for hypotheses in sets],
    }
    (Path(folder) / f"{state.process_index}.json").write_text(json.dumps(result))
    state.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1])
