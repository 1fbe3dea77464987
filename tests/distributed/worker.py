"""Runs on every process: three optimizer steps on given rollouts, and notes of what they did."""

import json
import sys
from pathlib import Path
from typing import Any

import torch
from accelerate import PartialState
from peft import LoraConfig
from transformers import TrainerCallback

from barl_trl import Answer, Rollout, answer_log_likelihoods, answers_equivalent, extract_answer
from barl_trl.graders import Grader, default
from barl_trl.rewards import AccuracyReward
from tests.tiny import tiny_model, tiny_tokenizer
from tests.trainer.rollouts import COMPLETIONS, PROBLEMS, config, given_rollouts, trainer

# wildly different lengths and numbers of hypotheses: eight and none at all
UNEVEN = {
    "How long?": [f"{'It is long, very long. ' * n}\\boxed{{{n}}}" for n in range(8)][::-1],
    "No truth?": ["", "x", r"\boxed{1}", ""] * 2,
}
ROWS = [*PROBLEMS, ("How long?", "7"), ("No truth?", "")]


class Notes(TrainerCallback):
    """The parameters before and after every optimizer step."""

    def __init__(self):
        self.parameters: list[dict[str, torch.Tensor]] = []

    def on_step_end(self, args, state, control, **kwargs):
        whole = self.trainer.accelerator.get_state_dict(self.trainer.model_wrapped)
        self.parameters.append({name: value.clone() for name, value in (whole or {}).items()})

    on_train_begin = on_step_end


def timed_out_on_other_processes(a: str, b: str) -> bool:
    """A verdict that differs between processes, as with a time-out on one of them."""
    return PartialState().process_index == 0 and answers_equivalent(a, b)


def lengths_of_steps(steps, **columns) -> list:
    """Rewards of steps that every process can tell; none for the last one."""
    return [[*(len(step) % 7 / 7 for step in one[:-1]), None][: len(one)] for one in steps]


def scores(model, tokenizer) -> list:
    """Log-likelihoods that a saved model must have, too."""
    answers = [Answer(tokenizer.encode(text), 0) for text in ("2.", "no.")]
    rollout = Rollout(tokenizer.encode("1+1? One and one are"), [4, 8], answers)
    scored = answer_log_likelihoods(model, [rollout], elicitation_ids=tokenizer.encode(" is "))
    return scored.answer_logps.tolist()


# the parameters' steps are the gradients
SETTINGS = {"optim": "sgd", "learning_rate": 0.1, "lr_scheduler_type": "constant", "max_steps": 3}
SETTINGS |= {"max_grad_norm": 0.0, "step_size": 16, "max_completion_length": 256}


def main(
    folder: str, num_prompts: int, is_short_of_memory=False, is_lora=False, **settings: Any
) -> None:
    tokenizer = tiny_tokenizer()
    own = {"num_generations": 8 // num_prompts, "log_completions": True}
    args = config(Path(folder) / "run", **SETTINGS | own | settings)
    outputs, judged, notes = [], [], Notes()

    def judge(gold, answer):
        judged.append([gold, answer])
        return default.verify(gold, answer)

    barl_trainer = notes.trainer = trainer(
        tiny_model(tokenizer),
        tokenizer,
        args,
        rows=ROWS if num_prompts == 2 else ROWS[::2],
        reward_funcs=AccuracyReward(Grader("own", "1", extract_answer, judge), "accuracy_reward"),
        rollout_func=given_rollouts(COMPLETIONS | UNEVEN),
        answer_equivalence=timed_out_on_other_processes if num_prompts == 1 else answers_equivalent,
        peft_config=LoraConfig(r=4, target_modules="all-linear") if is_lora else None,
        callbacks=[notes],
        turn_rewards=lengths_of_steps if args.credit == "turns" else None,
        state_key=len if args.credit_baseline == "state" else None,
    )
    accelerator, num_forwards = barl_trainer.accelerator, 0

    def count(_, args, kwargs):
        nonlocal num_forwards
        num_forwards += 1
        is_scoring = not torch.is_grad_enabled() and kwargs["input_ids"].numel() > 800
        if is_short_of_memory and accelerator.process_index == 0 and is_scoring:
            raise torch.OutOfMemoryError("out of memory.")

    barl_trainer.model.register_forward_pre_hook(count, with_kwargs=True)
    generate = barl_trainer._generate_and_score_completions
    barl_trainer._generate_and_score_completions = lambda rows: (
        outputs.append(generate(rows)) or outputs[-1]
    )
    barl_trainer.train()
    barl_trainer.save_model(str(Path(folder) / "saved"))
    result = {
        "weights": [
            row[mask.bool()].tolist()
            for output in outputs
            for row, mask in zip(output["advantages"], output["completion_mask"], strict=True)
        ],
        "log": barl_trainer.state.log_history[:3],
        "judged": judged,
        "scores": scores(barl_trainer.model, tokenizer),
        "num_forwards": num_forwards,
        "kind": str(accelerator.distributed_type),
        "zero_stage": getattr(accelerator.state.deepspeed_plugin, "zero_stage", None),
    }
    (Path(folder) / f"{accelerator.process_index}.json").write_text(json.dumps(result))
    if accelerator.is_main_process:
        torch.save(notes.parameters, Path(folder) / "parameters.pt")


if __name__ == "__main__":
    main(**json.loads(sys.argv[1]))
