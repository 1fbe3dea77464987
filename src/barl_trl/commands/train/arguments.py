"""The arguments of `barl train` beside `BARLConfig` and TRL's `ModelConfig`, and their checks."""

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from ...data import PAPER_SYSTEM_PROMPT
from ...evaluation.benchmarks import parse_benchmarks
from ...rewards import callable_at, get_reward_func
from ...trainer.barl_fields import (
    LENGTH_CONTROLLED_TOKENS,
    METHODS,
    BARLFields,
    check_method,
    option,
)
from ...trainer.checks.environment import refuse_unusable_folder
from ...trainer.checks.settings import TASK_RULES, Rule, refuse_broken
from ..shell.trl_options import trl_options

TRL = ("GRPOConfig", "ModelConfig")
"""TRL's classes of options that a recipe may have."""


def _reward_names(settings: Any) -> list[str]:
    names: Any = settings.reward_funcs
    return [names] if isinstance(names, str) else names


# fmt: off
_RULES = (
    *TASK_RULES,
    Rule("eval_strategy", lambda s: s.eval_strategy != "no" or not s.eval_benchmarks,
         "be set with eval_benchmarks", "for instance --eval_strategy steps --eval_steps 50"),
    Rule("solution_column", lambda s: s.solution_column == "solution",
         "be left at 'solution' with `barl train`", "name the file's column with answer_column"),
    Rule("system_prompt",
         lambda s: s.prompt_template is None or s.system_prompt == PAPER_SYSTEM_PROMPT,
         "be left out with prompt_template", "write it into the template"),
    Rule("prompt_template", lambda s: "{problem}" in s.prompt_template,
         "contain {{problem}}", "the problem is put there"),
    Rule("prompt_template", lambda s: not (s.tools or s.environment_factory),
         "be left out with tools and environments", "their prompts need the chat template"),
    Rule("rollout_func", lambda s: not (s.tools or s.environment_factory),
         "be left out with tools and environments", "TRL would ignore its env_mask"),
    Rule("reward_weights", lambda s: len(s.reward_weights) == len(_reward_names(s)),
         "have one weight for each of reward_funcs={s.reward_funcs}", "without it all are 1"),
    Rule("lora_r", lambda s: s.lora_r >= 1,
         "be at least 1", "it is the rank of the adapter, 16 for instance"),
    Rule("lora_task_type", lambda s: s.lora_task_type == "CAUSAL_LM",
         "be 'CAUSAL_LM'", "what is trained writes text. Leave it out"),
)
# fmt: on


@dataclass
class BARLScriptArguments:
    """Arguments of `barl train` beside [`BARLConfig`] and [`~trl.ModelConfig`]."""

    dataset_name: str = field(
        metadata={
            "help": "Dataset (required, as is `--model_name_or_path`): a Hub id, or a local JSONL, "
            "JSON, CSV or parquet file or folder."
        }
    )
    dataset_config: str | None = option(None, "Configuration of a Hub dataset.")
    dataset_train_split: str = option("train", "Split to train on.")
    dataset_test_split: str | None = option(
        None,
        "Split of TRL's own evaluation, which samples as training does, if `eval_strategy` is set. "
        "The default is `test`, or none with `eval_benchmarks`.",
    )
    problem_column: str | None = option(
        None, "Column of the problems. Not needed if it is named problem, question or prompt."
    )
    answer_column: str | None = option(
        None,
        "Column of the true answers. Not needed if it is named answer, final_answer or solution.",
    )
    system_prompt: str | None = option(
        PAPER_SYSTEM_PROMPT,
        "System prompt of the conversation (default: the paper's). A `prompt_template` has none.",
    )
    prompt_template: str | None = option(
        None,
        "Prompt for models without a chat template: plain text with `{problem}` in it. "
        "In a shell, $'{problem}\\n' ends it with a line break.",
    )
    max_prompt_length: int | None = option(
        None, "Most tokens of a prompt. Rows with longer prompts are left out and counted."
    )
    reward_funcs: list[str] = field(
        default_factory=lambda: ["accuracy_reward"],
        metadata={
            "help": "Reward functions, by name or dotted path. Names: `accuracy_reward`, a "
            "grader's (`math_verify`, `qwen`, `string`), `format_reward`, `think_format_reward`, "
            "`get_soft_overlong_punishment`."
        },
    )
    tools: list[str] = field(
        default_factory=list,
        metadata={
            "help": "Tools that the model may call, by dotted path: functions with type hints and "
            "a docstring, as `GRPOTrainer` takes them (docs/agents.md)."
        },
    )
    environment_factory: str | None = option(
        None,
        "Environment of an agent, by the dotted path of its class or of a function that makes one. "
        "Its public methods are tools; `reset` gets the row of the data set. With its "
        "`get_reward`, `reward_funcs` may be empty (`[]` in a recipe).",
    )
    rollout_func: str | None = option(
        None,
        "Function that makes the rollouts, by dotted path, as `GRPOTrainer` takes it. Its "
        "`env_mask` tells the model's tokens from others'.",
    )
    observation_likelihood: str | None = option(
        None,
        "Function that says how likely observations are under each hypothesis, by dotted path "
        "(docs/beliefs.md).",
    )
    hypothesis_rewards: str | None = option(
        None, "Function that says which rewards each hypothesis predicts, by dotted path."
    )
    outcome_under: str | None = option(
        None,
        "Function that says the outcome reward of an answer under a hypothesis, by dotted path.",
    )
    method: str = option(
        "barl",
        f"Credit of each step, by name ({', '.join(METHODS)}) or dotted path. `barl` is the "
        "paper's. `grpo` is TRL's GRPOTrainer (`--credit grpo`: its weights in BARLTrainer), "
        f"`grpo_length_controlled` the same with at most {LENGTH_CONTROLLED_TOKENS} completion "
        "tokens.",
    )
    eval_benchmarks: str | None = option(
        None,
        "Benchmarks that are evaluated greedily every `eval_steps` steps. Named as in `barl "
        "evaluate`: `math500,gsm8k=data/gsm8k.jsonl,mine=my.csv`. Training problems that are in "
        "them are counted.",
    )
    decontaminate: str | None = option(
        None,
        "Evaluation sets whose problems are left out of training. Named as in `eval_benchmarks`.",
    )
    deduplicate: bool = option(False, "Leave out rows that repeat the problem of an earlier row.")
    save_on_interrupt: bool = option(
        False,
        "On Ctrl-C or SIGTERM, end the optimizer step and save a checkpoint. A second signal ends "
        "the run at once.",
    )

    def __post_init__(self):
        check_method(self.method)
        self.tools = [self.tools] if isinstance(self.tools, str) else self.tools

    @property
    def reads_columns(self) -> bool:
        """Whether the user's own functions or environment get the other columns of the data."""
        is_own = any("." in name for name in _reward_names(self))
        return is_own or bool(self.agent_paths or self.task_paths)

    def splits(self, eval_strategy: Any) -> list[str]:
        """Return the split that is trained on, and that of TRL's own evaluation if there is one."""
        test_split = self.dataset_test_split
        if test_split is None and not self.eval_benchmarks:
            test_split = "test"
        evaluates = eval_strategy != "no" and test_split
        return [self.dataset_train_split, *([test_split] if evaluates and test_split else [])]

    @property
    def agent_paths(self) -> dict[str, list[str]]:
        """The dotted paths that make the model an agent, by the name of the trainer's argument."""
        single = ("environment_factory", "rollout_func")
        paths = {name: [getattr(self, name)] for name in single if getattr(self, name)}
        return paths | ({"tools": self.tools} if self.tools else {})

    @property
    def task_paths(self) -> dict[str, list[str]]:
        """The dotted paths of what the task says of hypotheses, by the trainer's argument."""
        names = ("observation_likelihood", "hypothesis_rewards", "outcome_under")
        return {name: [getattr(self, name)] for name in names if getattr(self, name)}


def given_settings(*parsed: Any) -> Any:
    """Return an object with BARL's and TRL's settings, whose class has the defaults.

    Args:
        *parsed: The instances of [`BARLFields`] and of TRL's options, as they were given.
    """
    settings = {name: v for part in parsed for name, v in vars(part).items() if v is not None}
    defaults = trl_options(TRL, but=()).defaults | vars(BARLFields())
    return type("Settings", (SimpleNamespace,), defaults)(**defaults | settings)


def check_recipe(script_args: BARLScriptArguments, *others: Any) -> None:
    """Refuse settings that break a rule, by the names that they have in a recipe.

    Args:
        script_args: The settings that only `barl train` has.
        *others: Objects with the other settings: BARL's, TRL's and the model's.

    Raises:
        ValueError: A field breaks a rule.
    """
    parts = [vars(part) for part in (*others, script_args)]
    settings: Any = SimpleNamespace(**{name: part[name] for part in parts for name in part})
    if settings.model_name_or_path is None:
        raise ValueError(
            "model_name_or_path must be set, got None: a Hub id or a local folder, for instance "
            "--model_name_or_path Qwen/Qwen2.5-Math-1.5B."
        )
    refuse_unusable_folder("model_name_or_path", settings.model_name_or_path)
    refuse_broken(_RULES, settings)


def check_names(script_args: BARLScriptArguments) -> None:
    """Refuse names of data, rewards, functions and benchmarks that this machine does not have.

    A user's own functions are imported.

    Raises:
        FileNotFoundError: A data file is missing.
        ValueError: There is no reward, function or benchmark of a name.
    """
    for name in _reward_names(script_args):
        get_reward_func(name)
    for argument, paths in (script_args.agent_paths | script_args.task_paths).items():
        for path in paths:
            callable_at(path, argument)
    parse_benchmarks(script_args.eval_benchmarks, "eval_benchmarks")
    parse_benchmarks(script_args.decontaminate, "decontaminate")
