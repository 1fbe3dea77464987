"""Train the shipped model of 0.9 M parameters with the task's belief: a minute on a CPU."""

import math
import re
from functools import partial

from datasets import Dataset
from transformers import AutoTokenizer

from barl_trl import BARLConfig, BARLTrainer
from barl_trl.rewards import accuracy_reward
from barl_trl.steps import delimited_steps
from barl_trl.synthetic.search import TINY_MODEL_DIR, search_rows

LINE = re.compile(r"Try (\d+): (.*) (yes|no)\.")


def observed(prompts, hypotheses, steps, **columns):
    """Return 0, or -inf where a line of the step rules the hypothesis out."""
    output = []
    for prompt, numbers, texts in zip(prompts, hypotheses, steps, strict=True):
        a, b, target = map(int, re.findall(r"(\d+)x \+ (\d+) = (\d+)", prompt)[0])
        output.append([[0.0] * len(numbers) for _ in texts])
        for row, text in zip(output[-1], texts, strict=True):
            for x, equation, verdict in LINE.findall(text):
                value = a * int(x) + b
                # the model writes the lines itself, so only true ones count
                if (equation, verdict == "yes") == (f"{a}*{x} + {b} = {value},", value == target):
                    row[:] = [
                        p if (n == x) == (verdict == "yes") else -math.inf
                        for n, p in zip(numbers, row, strict=True)
                    ]
    return output


def main() -> None:
    tokenizer = AutoTokenizer.from_pretrained(TINY_MODEL_DIR)
    trainer = BARLTrainer(
        model=str(TINY_MODEL_DIR),
        reward_funcs=accuracy_reward,
        args=BARLConfig(
            "outputs/beliefs",
            overwrite_output_dir=True,  # what an earlier run left there is deleted
            credit="bayes",
            belief="task",
            hypotheses_column="candidates",
            max_steps=10,
            per_device_train_batch_size=64,  # 8 prompts with 8 rollouts
            max_completion_length=96,
            learning_rate=3e-4,
            logging_steps=1,
            use_cpu=True,
            bf16=False,
        ),
        train_dataset=Dataset.from_list(search_rows(80, seed=0, with_candidates=True)),
        processing_class=tokenizer,
        step_segmenter=partial(delimited_steps, decode=tokenizer.decode, delimiter="."),  # lines
        observation_likelihood=observed,
    )
    trainer.train()
    for name in ("reward", "barl/entropy_before", "barl/entropy_after", "barl/truth_mass_after"):
        values = [log[name] for log in trainer.state.log_history if name in log]
        print(f"{name}: {values[0]:.2f} in the first step, {values[-1]:.2f} in the last")


if __name__ == "__main__":
    main()
