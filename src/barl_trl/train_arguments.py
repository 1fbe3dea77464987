"""Arguments of `barl train` beside those of `BARLConfig` and TRL's model."""

from dataclasses import dataclass, field
from typing import Literal

from .data import PAPER_SYSTEM_PROMPT
from .selection import SOLVE_RATE_COLUMN

Method = Literal["barl", "progress", "grpo", "grpo_length_controlled"]

LENGTH_CONTROLLED_TOKENS = 32
"""Most completion tokens of the paper's length-controlled GRPO."""


@dataclass
class BARLScriptArguments:
    """Arguments of `barl train` beside [`BARLConfig`] and [`~trl.ModelConfig`]."""

    dataset_name: str = field(
        metadata={
            "help": "Dataset: a Hub id, or a local JSONL, JSON, CSV or parquet file or folder."
        }
    )
    dataset_config: str | None = field(
        default=None, metadata={"help": "Configuration of a Hub dataset."}
    )
    dataset_train_split: str = field(default="train", metadata={"help": "Split to train on."})
    dataset_test_split: str | None = field(
        default=None,
        metadata={
            "help": "Split to evaluate on as in training, by samples, if `eval_strategy` is set "
            "(default: `test`; none with `eval_benchmarks`)."
        },
    )
    problem_column: str | None = field(
        default=None,
        metadata={
            "help": "Column of the problems. Found by itself if named problem, question or prompt."
        },
    )
    answer_column: str | None = field(
        default=None,
        metadata={
            "help": "Column of the true answers. Found by itself if named answer, final_answer or "
            "solution."
        },
    )
    system_prompt: str | None = field(
        default=PAPER_SYSTEM_PROMPT,
        metadata={
            "help": "System prompt of the conversation (default: the paper's). A `prompt_template` "
            "has none."
        },
    )
    prompt_template: str | None = field(
        default=None,
        metadata={
            "help": "For models without chat template: the prompt as plain text with `{problem}` "
            "in it. In a shell, $'{problem}\\n' ends it with a line break."
        },
    )
    max_prompt_length: int | None = field(
        default=None,
        metadata={"help": "Rows whose prompt has more tokens are left out, and counted."},
    )
    reward_funcs: list[str] = field(
        default_factory=lambda: ["accuracy_reward"],
        metadata={
            "help": "Reward functions: `accuracy_reward`, a grader (`math_verify`, `qwen`, "
            "`string`), `format_reward`, `think_format_reward`, `get_soft_overlong_punishment`, or "
            "the dotted import path of any other."
        },
    )
    method: Method = field(
        default="barl",
        metadata={
            "help": "`barl`: posterior-weighted values. `progress`: the value under the true "
            "answer alone (progress reward). `grpo`: TRL's GRPOTrainer. `grpo_length_controlled`: "
            f"the same with completions of at most {LENGTH_CONTROLLED_TOKENS} tokens."
        },
    )
    eval_benchmarks: str | None = field(
        default=None,
        metadata={
            "help": "Benchmarks to evaluate greedily every `eval_steps` steps, as in `barl "
            "evaluate`: `math500,gsm8k=data/gsm8k.jsonl,mine=my.csv`. Training problems that are "
            "among theirs are counted."
        },
    )
    decontaminate: str | None = field(
        default=None,
        metadata={
            "help": "Evaluation sets, named as in `eval_benchmarks`, whose problems are left out "
            "of training."
        },
    )
    deduplicate: bool = field(
        default=False,
        metadata={"help": "Leave out rows whose problem an earlier row has."},
    )
    min_solve_rate: float | None = field(
        default=None,
        metadata={
            "help": f"Leave out rows whose `{SOLVE_RATE_COLUMN}` (Big-Math's) is below: too hard."
        },
    )
    max_solve_rate: float | None = field(
        default=None, metadata={"help": "Leave out rows whose solve rate is above: too easy."}
    )
