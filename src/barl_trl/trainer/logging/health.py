"""Runs that cannot learn: the metric that shows it, its likely cause, the option that helps."""

import logging
import math
from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple

from accelerate.utils import gather_object
from transformers import TrainerCallback
from trl import GRPOTrainer

logger = logging.getLogger(__name__)

_LENGTH = "max_sequence_length"
FEW, MANY = 3, 10
"""Rollout batches in a row: where the setting decides, and where chance has a part."""


class _Symptom(NamedTuple):
    """A metric of a rollout batch, and the values of runs that cannot learn.

    Args:
        metric: Its name in the log.
        is_ill: Whether a value is one of those.
        batches: Rollout batches in a row that must have one.
        text: What is said, once; with `{value}` and the settings `{args.…}`.
    """

    metric: str
    is_ill: Callable[[float], bool]
    batches: int
    text: str


SYMPTOMS = (
    _Symptom(
        "completions/clipped_ratio",
        lambda value: value >= 1,
        FEW,
        "all completions are cut off at max_completion_length={args.max_completion_length}, so "
        "that few have an answer. Raise it, or ask for shorter answers in the prompt.",
    ),
    _Symptom(
        "barl/steps_per_rollout",
        lambda value: value <= 1,
        FEW,
        "rollouts have {value:.1f} steps, so that all tokens of a completion have one weight, as "
        "in plain RL. Make steps shorter (step_size={args.step_size}, or your step_segmenter).",
    ),
    _Symptom(
        "barl/no_answer",
        lambda value: value >= 1,
        FEW,
        "no completion has an answer that is read. Look at some with log_completions; ask for "
        "the form that the grader reads in the prompt, or set extraction='last_number'.",
    ),
    _Symptom(
        "frac_reward_zero_std",
        lambda value: value >= 1,
        MANY,
        "all rollouts of a prompt have the same reward, for all prompts, so that GRPO has no "
        "signal. Problems are too hard (reward 0), too easy, or not judged as meant: look at some "
        "with log_completions, select them with min_solve_rate and max_solve_rate, or raise "
        "num_generations.",
    ),
    _Symptom(
        "barl/truth_mass",
        lambda value: value < 1e-3,
        MANY,
        "the posterior mass of the true answers is {value:.1g}, so that they count for nothing. "
        "The model may write answers in another form than solution_column has them, or not "
        "understand the elicitation. Change either, or try consistency_beta=0.",
    ),
    _Symptom(
        "barl/belief_shift",
        lambda value: value < 1e-2,
        MANY,
        "the belief moves by {value:.1g} from the prompt to the end of a rollout, so that all "
        "steps weigh alike. The model may not understand the elicitation: change it, or save the "
        "scoring with credit='grpo', the outcome relative to the group's.",
    ),
)


class HealthMixin(GRPOTrainer):
    """Refuse or leave out rewards of infinity, and say of sequences that they are too long.

    Logs `max_sequence_length`, the tokens of a batch's longest prompt with its completion, and
    `infinite_rewards`, their share, where there are any.

    What it relies on in TRL: `_generate` returns prompts' and completions' token ids first;
    `_calculate_rewards` returns the rewards of all processes, NaN for none; `_metrics` holds a
    value per rollout batch until `log` averages and empties it.
    """

    model: Any
    _say_once: Any

    def _generate(self, prompts):
        output = super()._generate(prompts)
        if self.model.training:
            pairs = zip(output[0], output[1], strict=True)
            longest = max(gather_object([max((len(p) + len(c) for p, c in pairs), default=0)]))
            self._metrics["train"][_LENGTH].append(longest)
            self.check_length(longest)
        return output

    def check_length(self, length: int | None) -> None:
        """Say that a sequence of so many tokens has more than the model has positions."""
        config = self.model.config.get_text_config()
        positions = getattr(config, "max_position_embeddings", None)
        if positions and length and length > positions:
            self._say_once(
                _LENGTH,
                f"{length} tokens are more than the model's {positions} positions, after which "
                f"its tokens are of little use: max_completion_length={positions} less the prompt "
                "is the most.",
            )

    def _calculate_rewards(self, *args, **kwargs):
        rewards: Any = super()._calculate_rewards(*args, **kwargs)
        if rewards.isnan().all():  # TRL makes NaN of None
            self._say_once(
                "no reward",
                f"no rollout of a batch of {len(rewards)} has a reward: reward_funcs returned NaN "
                "or None for each, so that nothing is learned from them.",
            )
        is_infinite = rewards.isinf()
        if not is_infinite.any():
            return rewards
        row, column = is_infinite.nonzero()[0].tolist()
        text = (
            f"{self.reward_func_names[column]} must return finite rewards, got "
            f"{rewards[row, column].item()}: return None for a completion without a reward."
        )
        if not self.state.global_step:
            raise ValueError(text)
        self._say_once("infinite", f"{text} Such rollouts have no weight.")
        mode = "train" if self.model.training else "eval"
        share = is_infinite.any(dim=1).float().mean().item()
        self._metrics[mode]["infinite_rewards"].append(share)
        return rewards.masked_fill(is_infinite, math.nan)


class HealthCallback(TrainerCallback):
    """Say once of each symptom that a run has it, when its metrics are logged.

    Args:
        trainer: A trainer with `_say_once`. While callbacks hear of a log, its `_metrics` still
            have a value for each rollout batch since the last one.
    """

    def __init__(self, trainer: Any):
        self._trainer = trainer
        self._batches_in_a_row: Counter[str] = Counter()

    def on_log(self, args, state, control, **kwargs):  # noqa: D102 (transformers')
        trainer, in_a_row = self._trainer, self._batches_in_a_row
        if not trainer.model.training:
            return
        for symptom in SYMPTOMS:
            for value in trainer._metrics["train"].get(symptom.metric, ()):
                in_a_row[symptom.metric] = symptom.is_ill(value) * (in_a_row[symptom.metric] + 1)
                if in_a_row[symptom.metric] >= symptom.batches:
                    text = symptom.text.format(value=value, args=args)
                    said = f"{symptom.metric} is {value:.3g} in {symptom.batches} rollout batches"
                    trainer._say_once(symptom.metric, f"{said} in a row: {text}")
