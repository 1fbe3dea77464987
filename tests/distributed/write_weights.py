"""Runs on every process: token weights, parameters and log after one update on given rollouts."""

import json
import sys
from pathlib import Path

import torch
from accelerate import PartialState

from barl_trl import answers_equivalent, extract_answer
from barl_trl.graders import Grader, math_verify
from barl_trl.rewards import AccuracyReward
from tests.tiny import tiny_model, tiny_tokenizer
from tests.trainer.rollouts import PROBLEMS, config, trainer


def timed_out_on_other_processes(a: str, b: str) -> bool:
    """A verdict that differs between processes, as with a time-out on one of them."""
    return PartialState().process_index == 0 and answers_equivalent(a, b)


def main(folder: str, num_prompts: int, per_device: int) -> None:
    tokenizer = tiny_tokenizer()
    args = config(
        Path(folder) / "run",
        per_device_train_batch_size=per_device,
        num_generations=8 // num_prompts,
        optim="sgd",
        learning_rate=0.1,
        log_completions=True,
        num_iterations=2,  # old log-probabilities are read, too
    )
    outputs, judged = [], []

    def judge(gold, answer):
        judged.append([gold, answer])
        return math_verify.verify(gold, answer)

    barl_trainer = trainer(
        tiny_model(tokenizer),
        tokenizer,
        args,
        rows=PROBLEMS[:num_prompts],
        reward_funcs=AccuracyReward(Grader("own", "1", extract_answer, judge), "accuracy_reward"),
        answer_equivalence=timed_out_on_other_processes if num_prompts == 1 else answers_equivalent,
    )
    rank = barl_trainer.accelerator.process_index

    def allocate(_, args, kwargs):
        if rank == 1 and not torch.is_grad_enabled() and kwargs["input_ids"].numel() > 200:
            raise torch.OutOfMemoryError("out of memory.")

    barl_trainer.model.register_forward_pre_hook(allocate, with_kwargs=True)
    generate = barl_trainer._generate_and_score_completions
    barl_trainer._generate_and_score_completions = lambda rows: (
        outputs.append(generate(rows)) or outputs[-1]
    )
    barl_trainer.train()
    lengths = outputs[0]["completion_mask"].sum(1)
    weights = [row[:n].tolist() for row, n in zip(outputs[0]["advantages"], lengths, strict=True)]
    norm = torch.stack([p.detach().double().norm() for p in barl_trainer.model.parameters()])
    log = barl_trainer.state.log_history[0]
    result = {"weights": weights, "norm": norm.tolist(), "log": log, "judged": judged}
    (Path(folder) / f"{rank}.json").write_text(json.dumps(result))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
