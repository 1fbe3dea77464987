"""Warns of runs that cannot learn, with the likely cause and the option that helps."""

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
"""Rollout batches in a row before a warning: `FEW` if settings cause the symptom, `MANY` if chance
may cause it in a single batch."""


class _Symptom(NamedTuple):
    """A metric of a rollout batch, with the values that show that a run cannot learn.

    Args:
        metric: The name of the metric in the log.
        is_ill: Value of the metric -> whether a run with such values cannot learn.
        batches: Number of rollout batches in a row that must have such a value.
        text: The warning, a format string with `{value}` and the settings `{args.…}`.
    """

    metric: str
    is_ill: Callable[[float], bool]
    batches: int
    text: str


SYMPTOMS = (
    _Symptom(
        "tools/call_frequency",
        lambda value: value <= 0,
        MANY,
        "no rollout calls a tool. Ask for calls in the prompt, or train first on examples of them. "
        "If barl/malformed_calls is above 0, the model does not write the chat template's form.",
    ),
    _Symptom(
        "barl/at_turn_limit",
        lambda value: value >= 1,
        FEW,
        "all rollouts still call a tool when max_tool_calling_iterations="
        "{args.max_tool_calling_iterations} is used up, so that few have an answer. Raise it.",
    ),
    _Symptom(
        "barl/no_room_for_result",
        lambda value: value > 0.5,
        FEW,
        "the next result of a tool does not fit into "
        "max_completion_length={args.max_completion_length}, which counts results, in more than "
        "half of the rollouts. Raise it, or return shorter results.",
    ),
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
        "frac_reward_zero_std",
        lambda value: value >= 1,
        MANY,
        "all rollouts of a prompt have the same reward, for all prompts, so that GRPO has no "
        "signal. Problems are too hard (reward 0), too easy, or not judged as meant: look at some "
        "with log_completions, choose others, or raise num_generations.",
    ),
    _Symptom(
        "barl/observations_contradicted",
        lambda value: value > 0.05,
        FEW,
        "no hypothesis allows {value:.0%} of the observations, which are left out. Check "
        "observation_likelihood, and that hypotheses_column lists all that can be true.",
    ),
    _Symptom(
        "barl/answer_entropy",
        lambda value: value < 0.05,
        MANY,
        "the rollouts of a prompt give the same answer, for all prompts without a true answer, so "
        "that the votes say nothing more. Stop here: such a run rises and then collapses.",
    ),
    _Symptom(
        "barl/length_left",
        lambda value: value < 0.5,
        FEW,
        "completions have shrunk to {value:.0%} of their length in the first batch. Runs that are "
        "rewarded by their own votes collapse like this: stop, or go back.",
    ),
    _Symptom(
        "barl/truth_mass",
        lambda value: value < 1e-3,
        MANY,
        "the posterior mass of the true answers is {value:.1g}, so that they count for nothing. "
        "The model may write answers in another form than solution_column has them, or not "
        "understand the elicitation. Change either, or try consistency_beta=0. With the task's "
        "belief, observation_likelihood rules true answers out.",
    ),
    _Symptom(
        "barl/belief_shift",
        lambda value: value < 1e-2,
        MANY,
        "the belief moves by {value:.1g} from the prompt to the end of a rollout, so that all "
        "steps weigh alike. The model may not understand the elicitation (change it), or the "
        "observations may rule nothing out. "
        "credit='grpo', the outcome relative to the group's, saves the scoring.",
    ),
)


class HealthMixin(GRPOTrainer):
    """Refuse or leave out infinite rewards, and warn of sequences that are too long for the model.

    It logs `max_sequence_length`, the number of tokens of a batch's longest prompt with its
    completion, and, if there are infinite rewards, `infinite_rewards`, the share of rollouts that
    have one.

    What it relies on in TRL: `_generate` returns the token ids of prompts and completions first;
    `_calculate_rewards` returns the rewards of all processes, NaN for a missing reward; `_metrics`
    holds one value per rollout batch until `log` averages and empties it.
    """

    args: Any
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
        """Warn once if a sequence has more tokens than the model has positions.

        Args:
            length: The number of tokens; None is not checked.
        """
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
        # TRL turns a reward of None into NaN
        if rewards.isnan().all() and self.args.own_credit.needs_truth:
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
    """Warn once of each symptom that a run has, when its metrics are logged.

    What it relies on in TRL: when callbacks are called for a log of training, `_metrics` still
    holds one value for each rollout batch since the last such log. A log of evaluation has names
    that begin with `eval_`.

    Args:
        trainer: A trainer with `_say_once`.
    """

    def __init__(self, trainer: Any):
        self._trainer = trainer
        self._batches_in_a_row: Counter[str] = Counter()

    def on_log(self, args, state, control, logs=(), **kwargs):  # noqa: D102 (transformers')
        trainer, in_a_row = self._trainer, self._batches_in_a_row
        if any(name.startswith("eval_") for name in logs):
            return
        for symptom in SYMPTOMS:
            for value in trainer._metrics["train"].get(symptom.metric, ()):
                if "belief" in symptom.metric and trainer.scorer.credit.hypotheses == "none":
                    break  # it is only logged: no weight depends on it
                in_a_row[symptom.metric] = symptom.is_ill(value) * (in_a_row[symptom.metric] + 1)
                if in_a_row[symptom.metric] >= symptom.batches:
                    text = symptom.text.format(value=value, args=args)
                    trainer._say_once(
                        symptom.metric,
                        f"{symptom.metric} is {value:.3g} in {symptom.batches} rollout batches in "
                        f"a row: {text}",
                    )
