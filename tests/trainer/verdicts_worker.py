"""Runs on every process: five groups of two rollouts, of which two processes share the third.

The processes judge differently, as where a comparison times out on one of them alone: to the first
every answer is right, and the same as any other.
"""

import json
import sys
from pathlib import Path

from accelerate import PartialState

from barl_trl.graders import Grader, Verdict, extract_answer
from barl_trl.hypotheses import merge_hypotheses
from barl_trl.rewards import AccuracyReward
from barl_trl.trainer.rollouts.shared_verdicts import (
    RowHypotheses,
    share_hypotheses,
    share_verdicts,
)

TRUTHS = ["1", "1", "2", "2", "3", "3", "4", "4", "", ""]
ANSWERS = ["1", "1", "2", "02", "3", "03", None, "04", "5", "5"]
COMPLETIONS = ["no idea" if answer is None else rf"\boxed{{{answer}}}" for answer in ANSWERS]


def main(folder: str) -> None:
    state = PartialState(cpu=True)
    is_first, size = state.process_index == 0, len(ANSWERS) // state.num_processes
    own = slice(state.process_index * size, (state.process_index + 1) * size)
    judged, merged = [], []

    def judge(truth, answer):
        judged.append([truth, answer])
        return Verdict(is_first, "equal" if is_first else "timeout")

    def merge(row, answers):
        merged.append([row.truth, *answers])
        return merge_hypotheses(row.truth, answers, equivalent=lambda a, b: is_first)

    reward = AccuracyReward(Grader("own", "1", extract_answer, judge), "accuracy_reward")
    share_verdicts(reward, COMPLETIONS[own], TRUTHS[own])
    judged_ahead = list(judged)
    rewards = reward(COMPLETIONS, TRUTHS)
    places = range(len(ANSWERS))[own]
    rows = [None if place % 2 else RowHypotheses(TRUTHS[place], None) for place in places]
    answers, sets, _ = share_hypotheses(ANSWERS[own], rows, merge, group_size=2)
    result = {
        "judged ahead": judged_ahead,
        "judged": judged,
        "rewards": rewards,
        "merged": merged,
        "answers": answers,
        "hypotheses": [hypotheses and hypotheses.answers for hypotheses in sets],
    }
    (Path(folder) / f"{state.process_index}.json").write_text(json.dumps(result))
    state.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1])
