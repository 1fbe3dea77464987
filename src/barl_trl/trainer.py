"""`BARLTrainer`: TRL's `GRPOTrainer` with every token weighed by its step's posterior-weighted
value.
"""

import difflib
import textwrap
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import torch
from accelerate.utils import gather_object
from datasets import Dataset, IterableDataset
from torch import Tensor, nn
from transformers import ProcessorMixin
from trl import GRPOTrainer
from trl.extras.profiling import profiling_context

from .answers import (
    DROP_REASONS,
    HypothesisSet,
    answers_equivalent,
    extract_answer,
    merge_hypotheses,
    truth_answer,
)
from .config import BARLConfig
from .diagnostics import RolloutDiagnostics, rollout_diagnostics, value_spread
from .elicitation import Elicitation
from .plausibility import AnswerLogLikelihoods, answer_log_likelihoods
from .posterior import posterior_weighted_values
from .steps import StepSegmenter, chain_of_thought, fixed_size_steps, spread_over_tokens
from .whitening import moments, standardize

TABLE_COLUMNS = ("hypotheses", "step_values")
"""Columns of TRL's completions table that BARL adds; `advantage` there is the mean token weight."""


class RewardedCompletions(NamedTuple):
    """What `GRPOTrainer` has when it computes rewards: this process's completions, all processes'
    rewards.
    """

    inputs: list[dict[str, Any]]
    texts: list[str]
    token_ids: list[list[int]]
    rewards_per_func: Tensor


class BARLTrainer(GRPOTrainer):
    """Trainer for Bayes-Adaptive RL for LLM Reasoning (BARL,
    https://huggingface.co/papers/2505.20561).

    The only change w.r.t. [`~trl.GRPOTrainer`] is the weight of the tokens in the policy gradient:
    the answers found by a prompt's rollouts and the true answer are hypotheses, and the tokens of
    each reasoning step get the step's value under the posterior over them, instead of one
    group-relative advantage for the whole completion. Generation, rewards, loss, vLLM, KL, PEFT,
    evaluation and logging are inherited unchanged.

    What it relies on in TRL: `_calculate_rewards(inputs, prompts, completions,
        completion_ids_list)` returns the rewards of all processes;
        `_generate_and_score_completions(inputs)` returns `prompt_ids`, `prompt_mask`,
        `completion_mask` and `advantages`, and the loss takes `advantages` of shape (B, T);
        `_metrics`, `_logs`, `_tokenizer`, `eos_token_ids`, `reward_weights`, `_is_vlm`.
        `tests/trainer/test_trl_contract.py` names what a TRL release changes in it.

    Args:
        model, args, train_dataset, eval_dataset, processing_class, **kwargs:
            As in [`~trl.GRPOTrainer`], with a [`BARLConfig`]. The dataset needs the column
            `args.solution_column` with the true answers. Images, tools and environments are
            refused.
        reward_funcs:
            As in [`~trl.GRPOTrainer`]; their weighted sum is the outcome reward.
        answer_extractor (`Callable[[str], str | None]`, *optional*, defaults to
        [`extract_answer`]):
            Completion -> its final answer, or `None`.
        answer_equivalence (`Callable[[str, str], bool]`, *optional*, defaults to
        [`answers_equivalent`]):
            Whether two answers are one hypothesis.
        step_segmenter (`Callable[[Sequence[int]], list[int]]`, *optional*):
            Chain-of-thought token ids -> the ends of its reasoning steps. Defaults to steps of
            `args.step_size` tokens.

    Raises:
        ValueError: A setting that BARL cannot honour, before any model is loaded.

    Example:
    ```python
    >>> from barl_trl import BARLConfig, BARLTrainer
    >>> from barl_trl.rewards import accuracy_reward

    >>> trainer = BARLTrainer(
    ...     model="Qwen/Qwen2.5-Math-1.5B",
    ...     reward_funcs=accuracy_reward,
    ...     args=BARLConfig(output_dir="outputs"),
    ...     train_dataset=dataset,  # columns "prompt" and "solution"
    ... )  # doctest: +SKIP
    ```
    """

    _tag_names = ["trl", "barl"]
    _name = "BARL"
    _paper = {
        "title": "Beyond Markovian: Reflective Exploration via Bayes-Adaptive RL for LLM Reasoning",
        "id": "2505.20561",
        "citation": textwrap.dedent("""\
            @article{zhang2025beyond,
                title        = {{Beyond Markovian: Reflective Exploration via Bayes-Adaptive RL for
                LLM Reasoning}}, author       = {Shenao Zhang and Yaqing Wang and Yinxiao Liu and
                Tianqi Liu and Peter Grabowski and Eugene Ie and Zhaoran Wang and Yunxuan Li}, year
                = 2025, eprint       = {arXiv:2505.20561},
            }"""),
    }

    args: BARLConfig
    model: nn.Module
    num_generations: int

    def __init__(
        self,
        model,
        reward_funcs=None,
        args: BARLConfig | None = None,
        train_dataset: Dataset | IterableDataset | None = None,
        eval_dataset=None,
        processing_class=None,
        *,
        answer_extractor: Callable[[str], str | None] = extract_answer,
        answer_equivalence: Callable[[str, str], bool] = answers_equivalent,
        step_segmenter: StepSegmenter | None = None,
        **kwargs,
    ):
        if args is None:
            name = model if isinstance(model, str) else model.config._name_or_path
            args = BARLConfig(f"{name.split('/')[-1]}-BARL")
        _refuse_unsupported(args, reward_funcs, train_dataset, processing_class, kwargs)
        super().__init__(
            model, reward_funcs, args, train_dataset, eval_dataset, processing_class, **kwargs
        )
        if self._is_vlm:
            raise ValueError(
                "processing_class must be a tokenizer, got a processor: BARLTrainer is text-only."
            )
        self.answer_extractor = answer_extractor
        self.answer_equivalence = answer_equivalence
        self.step_segmenter = step_segmenter or partial(fixed_size_steps, step_size=args.step_size)
        self.elicitation = Elicitation(self._tokenizer, args.elicitation)
        self._end_ids = [*self.eos_token_ids, self._tokenizer.pad_token_id]

    def _calculate_rewards(self, inputs, prompts, completions, completion_ids_list):
        rewards_per_func = super()._calculate_rewards(
            inputs, prompts, completions, completion_ids_list
        )
        texts = [c if isinstance(c, str) else c[-1]["content"] or "" for c in completions]
        self._rewarded = RewardedCompletions(inputs, texts, completion_ids_list, rewards_per_func)
        return rewards_per_func

    def _generate_and_score_completions(self, inputs):
        output = super()._generate_and_score_completions(inputs)
        if not self.model.training:
            self._log_table([{}] * len(inputs))
            return output
        outcomes = self._outcome_rewards()
        answers, truths = self._answers_and_truths()
        sets = self._share_hypotheses(answers, truths)

        start = self.accelerator.process_index * len(inputs)
        rows = [
            (sets[n // self.num_generations], n % self.num_generations)
            for n in range(start, start + len(inputs))
        ]
        own = slice(start, start + len(inputs))
        weighed = (
            torch.tensor([s is not None for s, _ in rows], device=outcomes.device)
            & outcomes[own].isfinite()
        )
        step_ends, scored = self._score_hypotheses(
            output, [s.answers if s else () for s, _ in rows]
        )
        values = posterior_weighted_values(
            scored.answer_logps,
            self._hypothesis_outcomes(outcomes[own], rows, scored.hypothesis_mask),
            beta=self.args.consistency_beta,
            state_mask=scored.state_mask,
            hypothesis_mask=scored.hypothesis_mask,
            outcome=self.args.outcome_mode,
        )
        mask = output["completion_mask"].bool() & weighed[:, None]
        weights = spread_over_tokens(values, step_ends, outcomes[own], num_tokens=mask.shape[1])
        output["advantages"] = self._normalize(weights.masked_fill(~mask, 0.0), mask, start)

        self._log_diagnostics(scored, values, weighed, outcomes, answers, sets)
        mean_weights = (output["advantages"].sum(dim=1) / mask.sum(dim=1).clamp(min=1)).tolist()
        self._log_table(
            [
                {
                    "hypotheses": list(s.answers) if s else None,
                    "step_values": [round(v, 4) for v in values[b, : len(step_ends[b])].tolist()],
                    "advantage": mean_weights[b],
                }
                for b, (s, _) in enumerate(rows)
            ]
        )
        return output

    def _outcome_rewards(self) -> Tensor:
        """Outcome reward v of every rollout of all processes, (N,); NaN where every reward function
        returned None.
        """
        rewards = self._rewarded.rewards_per_func
        unscorable = rewards.isnan().all(dim=1)
        return (
            (rewards * self.reward_weights.to(rewards.device))
            .nansum(dim=1)
            .masked_fill(unscorable, torch.nan)
        )

    def _answers_and_truths(self) -> tuple[list[str | None], list[str]]:
        """Final answer and true answer of every rollout of all processes."""
        answers = [self.answer_extractor(text) for text in self._rewarded.texts]
        truths = [
            truth_answer(str(row[self.args.solution_column])) for row in self._rewarded.inputs
        ]
        pairs = gather_object(list(zip(answers, truths, strict=True)))
        return [answer for answer, _ in pairs], [truth for _, truth in pairs]

    def _share_hypotheses(
        self, answers: list[str | None], truths: list[str]
    ) -> list[HypothesisSet | None]:
        """The hypothesis set of every group. A group may straddle processes, and a comparison may
        time out on one process and not on another: each group's set is made by one process and
        shared.
        """
        size, world = self.num_generations, self.accelerator.num_processes
        own = {
            g: merge_hypotheses(
                truths[g * size],
                answers[g * size : (g + 1) * size] if self.args.hypotheses == "rollouts" else [],
                equivalent=self.answer_equivalence,
                max_answer_chars=self.args.max_answer_chars,
                max_hypotheses=self.args.max_hypotheses,
                special_tokens=self._tokenizer.all_special_tokens,
            )
            for g in range(self.accelerator.process_index, len(answers) // size, world)
        }
        shared = gather_object([own])
        return [shared[g % world][g] for g in range(len(answers) // size)]

    def _score_hypotheses(
        self, output: dict[str, Tensor], answers: Sequence[Sequence[str]]
    ) -> tuple[list[list[int]], AnswerLogLikelihoods]:
        """Ends of the steps of this process's rollouts, and the log-likelihood of each hypothesis
        at each of their states.
        """
        step_ends, rollouts = [], []
        for b, completion_ids in enumerate(self._rewarded.token_ids):
            prompt_ids = output["prompt_ids"][b][output["prompt_mask"][b].bool()].tolist()
            chain = chain_of_thought(completion_ids, self._end_ids)
            step_ends.append(self.step_segmenter(chain))
            rollouts.append(self.elicitation.rollout(prompt_ids, chain, step_ends[b], answers[b]))
        start = time.perf_counter()
        with profiling_context(self, "score_hypotheses"), self.accelerator.autocast():
            scored = answer_log_likelihoods(
                self.model,
                rollouts,
                elicitation_ids=self.elicitation.token_ids,
                reduction=self.args.answer_likelihood,
                method=self.args.scoring_method,
                temperature=self.args.plausibility_temperature,
                max_tokens=self.args.scoring_max_tokens,
            )
        if torch.accelerator.is_available():
            torch.accelerator.synchronize()
        self._metrics["train"]["barl/scoring_seconds"].append(time.perf_counter() - start)
        return step_ends, scored

    def _hypothesis_outcomes(self, outcomes: Tensor, rows, hypothesis_mask: Tensor) -> Tensor:
        """`outcomes` (B,), or with `outcome_mode="hypothesis"` each hypothesis's own (B, H); the
        truth's stays the reward.
        """
        if self.args.outcome_mode == "ground_truth":
            return outcomes
        own = torch.zeros_like(hypothesis_mask, dtype=outcomes.dtype)
        for b, (hypotheses, member) in enumerate(rows):
            if hypotheses and hypotheses.members and hypotheses.members[member] is not None:
                own[b, hypotheses.members[member]] = 1.0
        own[:, 0] = outcomes
        return own

    def _normalize(self, weights: Tensor, mask: Tensor, start: int) -> Tensor:
        """Token weights (B, L) whitened over the rollout batch of all processes, or within each
        group of it.
        """
        if self.args.value_normalization == "none":
            return weights
        groups = torch.zeros(len(weights), dtype=torch.long, device=weights.device)
        if self.args.value_normalization == "group":
            groups = (
                start + torch.arange(len(weights), device=weights.device)
            ) // self.num_generations
        num_groups = len(weights) * self.accelerator.num_processes // self.num_generations
        totals: Any = self.accelerator.reduce(
            moments(weights, mask, groups, num_groups=num_groups), reduction="sum"
        )
        return standardize(weights, groups, totals).masked_fill(~mask, 0.0)

    def _log_diagnostics(self, scored, values, weighed, outcomes, answers, sets):
        """Belief diagnostics of the rollout batch, over all processes, through TRL's metrics."""
        own = rollout_diagnostics(
            scored.answer_logps,
            values,
            scored.state_mask,
            scored.hypothesis_mask,
            beta=self.args.consistency_beta,
        )
        own = torch.stack(list(own), dim=1).masked_fill(~weighed[:, None], torch.nan)
        columns: Any = self.accelerator.gather(own)
        gathered = RolloutDiagnostics(*columns.unbind(dim=1))
        metrics = {name: column.nanmean().item() for name, column in gathered._asdict().items()}
        metrics["value_spread_equal_outcome"] = value_spread(
            gathered.value, outcomes, group_size=self.num_generations
        )
        metrics["hypotheses_per_prompt"] = sum(len(s.answers) for s in sets if s) / max(
            sum(map(bool, sets)), 1
        )
        metrics["no_answer"] = sum(answer is None for answer in answers) / len(answers)
        metrics["scoring_tokens"] = sum(gather_object([scored.num_tokens]))
        metrics["unusable_truths"] = sum(s is None for s in sets) / len(sets)
        for reason in set(DROP_REASONS) - {"no_answer"}:
            metrics[f"dropped/{reason}"] = sum(s.dropped.get(reason, 0) for s in sets if s) / len(
                answers
            )
        for name, value in metrics.items():
            self._metrics["train"][f"barl/{name}"].append(value)

    def _log_table(self, own_rows: list[dict[str, Any]]):
        """Puts BARL's columns into TRL's completions table, and its weights in place of the GRPO
        advantages there.
        """
        rows = gather_object(own_rows)
        for column in TABLE_COLUMNS:
            self._logs["extra"][column].extend(row.get(column) for row in rows)
        if "advantage" in rows[0]:
            advantages = self._logs["advantages"]
            for _ in range(min(len(rows), len(advantages))):
                advantages.pop()
            advantages.extend(row["advantage"] for row in rows)

    def log(self, logs, start_time=None):  # noqa: D102 (TRL's)
        metrics = self._metrics["train"]
        if self.model.training and metrics.get("barl/scoring_seconds") and metrics.get("step_time"):
            share = sum(metrics["barl/scoring_seconds"]) / sum(metrics["step_time"])
            metrics["barl/scoring_share_of_step"].append(share)
        super().log(logs, start_time)


def _refuse_unsupported(args, reward_funcs, train_dataset, processing_class, kwargs):
    """Mistakes that can be known before a model is loaded."""
    if not isinstance(args, BARLConfig):
        raise TypeError(
            f"args must be a BARLConfig, got {type(args).__name__}: BARLConfig takes all of its "
            "fields."
        )
    for name in ("tools", "environment_factory"):
        if kwargs.get(name):
            raise ValueError(
                f"{name} must be None, got {kwargs[name]!r}: a chain of thought is one model's "
                "text here."
            )
    if not reward_funcs:
        raise ValueError(
            "reward_funcs must hold at least one function, got none: try "
            "barl_trl.rewards.accuracy_reward."
        )
    if isinstance(processing_class, ProcessorMixin):
        raise ValueError(
            "processing_class must be a tokenizer, got a processor: BARLTrainer is text-only."
        )
    columns = getattr(train_dataset, "column_names", None)
    if columns is None:
        return
    if images := {"image", "images"} & set(columns):
        raise ValueError(
            f"train_dataset must be text-only, got the column {sorted(images)}: remove it."
        )
    if args.solution_column not in columns:
        nearest = difflib.get_close_matches(args.solution_column, columns, n=1) or columns
        raise ValueError(
            f"solution_column must name a column of train_dataset, got {args.solution_column!r} "
            f"with the columns {columns}: set it to the column of true answers ({nearest[0]!r}?)."
        )
