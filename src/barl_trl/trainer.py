"""`BARLTrainer`: TRL's `GRPOTrainer` with every token weighed by its step's posterior-weighted
value.
"""

import textwrap
import time
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import torch
from accelerate.utils import gather_object
from datasets import Dataset, IterableDataset
from torch import Tensor, nn
from transformers.integrations import is_deepspeed_zero3_enabled
from trl import GRPOTrainer
from trl.extras.profiling import profiling_context

from .answers import HypothesisSet, hypothesis_metrics, merge_hypotheses, truth_answer
from .config import BARLConfig
from .diagnostics import RolloutDiagnostics, clipped_tokens, rollout_diagnostics, value_spread
from .elicitation import Elicitation
from .plausibility import AnswerLogLikelihoods, answer_log_likelihoods
from .posterior import closing_values, posterior_weighted_values
from .refusals import refuse_unsupported
from .rewards import AccuracyReward, accuracy_reward, completion_text, resolve_rewards, whole
from .row_logps import causal_lm
from .steps import (
    StepSegmenter,
    chain_of_thought,
    fixed_size_steps,
    spread_over_tokens,
    step_ends_of,
)
from .whitening import moments, standardize

TABLE_COLUMNS = ("hypotheses", "step_values")
"""Columns of TRL's completions table that BARL adds; `advantage` there is the mean token weight."""


class Generated(NamedTuple):
    """This process's rollouts, as `GRPOTrainer` generated them."""

    prompt_ids: list[list[int]]
    completion_ids: list[list[int]]
    completions: list[Any]


class Scored(NamedTuple):
    """What is known of this process's rollouts before their rewards."""

    answers: list[str | None]  # of all processes
    sets: list[HypothesisSet | None]  # of all processes' groups
    own_sets: list[HypothesisSet | None]
    step_ends: list[list[int]]
    likelihoods: AnswerLogLikelihoods


class BARLTrainer(GRPOTrainer):
    """Trainer for Bayes-Adaptive RL for LLM Reasoning (BARL,
    https://huggingface.co/papers/2505.20561).

    The only change w.r.t. [`~trl.GRPOTrainer`] is the weight of the tokens in the policy gradient:
    the answers found by a prompt's rollouts and the true answer are hypotheses, and the tokens of
    each reasoning step get the step's value under the posterior over them, instead of one
    group-relative advantage for the whole completion. Generation, rewards, loss, vLLM, KL, PEFT,
    evaluation are inherited unchanged.

    What it relies on in TRL: `_generate(prompts)` returns token ids and completions;
        `_get_per_token_logps_and_entropies` computes the old log-probabilities between it and
        `_calculate_rewards`, which returns the rewards of all processes;
        `_generate_and_score_completions(inputs)` returns `completion_mask`, `advantages` and, with
        vLLM, `importance_sampling_ratio`; the loss takes `advantages` of shape (B, T);
        `_metrics`, `_logs`, `_tokenizer`, `eos_token_ids`, `reward_weights`, `_is_vlm`.
        `tests/trainer/test_trl_contract.py` names what a TRL release changes in it.

    Args:
        model, args, train_dataset, eval_dataset, processing_class, **kwargs:
            As in [`~trl.GRPOTrainer`], with a [`BARLConfig`]. The dataset needs the column
            `args.solution_column` with the true answers. Images, tools and environments are
            refused.
        reward_funcs:
            As in [`~trl.GRPOTrainer`], or the name of a grader (`"math_verify"`, `"qwen"`,
            `"string"`); their weighted sum is the outcome reward.
        answer_extractor (`Callable[[str], str | None]`, *optional*):
            Completion -> its final answer, or `None`. It forms the hypotheses; `reward_funcs` must
            read the same answers. Defaults to that of the first of them which has a grader, else to
            [`extract_answer`].
        answer_equivalence (`Callable[[str, str], bool]`, *optional*):
            Whether two answers are one hypothesis. Defaults to the same grader's verdict.
        step_segmenter (`Callable[[Sequence[int]], list[int]]`, *optional*):
            Chain-of-thought token ids -> the ends of its reasoning steps. Defaults to steps of
            `args.step_size` tokens.

    Raises:
        ValueError: A setting or a data set that BARL cannot honour, before any model is loaded; a
            model with an image processor, after it.
        TypeError: `args` is no [`BARLConfig`].
        ImportError: `args.use_vllm` without vLLM.

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
                title  = {{Beyond Markovian: Reflective Exploration via Bayes-Adaptive RL for LLM Reasoning}},
                author = {Shenao Zhang and Yaqing Wang and Yinxiao Liu and Tianqi Liu and Peter Grabowski and Eugene Ie and Zhaoran Wang and Yunxuan Li},
                year   = 2025,
                eprint = {arXiv:2505.20561},
            }"""),  # noqa: E501
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
        answer_extractor: Callable[[str], str | None] | None = None,
        answer_equivalence: Callable[[str, str], bool] | None = None,
        step_segmenter: StepSegmenter | None = None,
        **kwargs,
    ):
        if args is None:
            name = model if isinstance(model, str) else model.config._name_or_path
            args = BARLConfig(f"{name.split('/')[-1]}-BARL")
        reward_funcs = resolve_rewards(reward_funcs)
        refuse_unsupported(args, reward_funcs, train_dataset, kwargs)
        super().__init__(
            model, reward_funcs, args, train_dataset, eval_dataset, processing_class, **kwargs
        )
        if self._is_vlm:
            raise ValueError(
                "processing_class must be a tokenizer, got a processor: BARLTrainer is text-only."
            )
        self._accuracy_rewards = [f for f in self.reward_funcs if isinstance(f, AccuracyReward)]
        grader = (self._accuracy_rewards or [accuracy_reward])[0].grader
        self.answer_extractor = answer_extractor or grader.extract_answer
        self.answer_equivalence = answer_equivalence or grader.equivalent
        self.step_segmenter = step_segmenter or partial(fixed_size_steps, step_size=args.step_size)
        self.elicitation = Elicitation(self._tokenizer, args.elicitation)
        added = self._tokenizer.added_tokens_decoder.values()
        self._special_tokens = {*self._tokenizer.all_special_tokens}
        self._special_tokens |= {token.content for token in added if token.special}
        self._seconds = {"scoring": 0.0, "step": 0.0}
        self._scoring_max_tokens = args.scoring_max_tokens
        self._asks_for_old_logps = False
        if is_deepspeed_zero3_enabled():
            self._gather_head_with_model()

    def _gather_head_with_model(self):
        """Has ZeRO-3 gather the head's weight whenever the model runs, forward or backward.

        TRL's loss reads the weight without calling the head. Alone that is noticed; after scoring,
        which calls the head, it is prefetched instead, and gone when its gradient arrives.
        """
        import deepspeed

        base = causal_lm(self.model)
        head: Any = base.get_output_embeddings()
        deepspeed.zero.register_external_parameter(base, head.weight)

    def _generate(self, prompts):
        output = super()._generate(prompts)
        prompt_ids, completion_ids, _, completions, _, extra_fields, *_ = output
        self._generated = Generated(prompt_ids, completion_ids, completions)
        # Whether TRL's next forward is the policy's, for the old log-probabilities; a rollout_func
        # may bring true answers that are not known yet.
        passes = (self.args.steps_per_generation or 1) * self.num_iterations
        is_stale = self.args.gradient_accumulation_steps % passes != 0
        is_corrected = self.use_vllm and self.vllm_importance_sampling_correction
        is_known = self.args.solution_column not in extra_fields
        self._asks_for_old_logps = self.model.training and is_known and (is_stale or is_corrected)
        return output

    def _get_per_token_logps_and_entropies(
        self, model, input_ids, attention_mask, logits_to_keep, *args, **kwargs
    ):
        if not self._asks_for_old_logps:
            return super()._get_per_token_logps_and_entropies(
                model, input_ids, attention_mask, logits_to_keep, *args, **kwargs
            )
        # The pass that scores the answers goes through the same tokens: it reads both.
        self._asks_for_old_logps = False
        self._share_verdicts(self._inputs, self._generated.completions)
        self._scored = self._score(read_completions=True)
        logps = self._scored.likelihoods.own_logps
        return nn.functional.pad(logps, (0, logits_to_keep - logps.shape[1])), None, None

    def _calculate_rewards(self, inputs, prompts, completions, completion_ids_list):
        self._share_verdicts(inputs, completions)
        self._rewards_per_func = super()._calculate_rewards(
            inputs, prompts, completions, completion_ids_list
        )
        return self._rewards_per_func

    def _generate_and_score_completions(self, inputs):
        self._inputs, self._scored = inputs, None
        output = super()._generate_and_score_completions(inputs)
        if "importance_sampling_ratio" in output:
            self._log_clipped_ratios(output)
        if not self.model.training:
            self._log_table([{}] * len(inputs))
            return output
        start = self.accelerator.process_index * len(inputs)
        own = slice(start, start + len(inputs))
        outcomes = self._outcome_rewards()
        answers, sets, own_sets, step_ends, scored = self._scored or self._score()
        outcome_rewards = self._hypothesis_outcomes(outcomes[own], own_sets, start, scored)
        options: dict[str, Any] = {
            "beta": self.args.consistency_beta,
            "state_mask": scored.state_mask,
            "hypothesis_mask": scored.hypothesis_mask,
            "outcome": self.args.outcome_mode,
        }
        values = posterior_weighted_values(scored.answer_logps, outcome_rewards, **options)
        closing = closing_values(scored.answer_logps, outcome_rewards, **options)

        mask = self._weighed_tokens(output, step_ends, own_sets, outcomes[own])
        weights = spread_over_tokens(values, step_ends, closing, num_tokens=mask.shape[1])
        output["advantages"] = self._normalize(weights.masked_fill(~mask, 0.0), mask, start)

        self._log_diagnostics(scored, values, mask, outcomes, answers, sets)
        mean_weights = output["advantages"].sum(dim=1) / mask.sum(dim=1).clamp(min=1)
        self._log_table(
            [
                {
                    "hypotheses": list(hypotheses.answers) if hypotheses else None,
                    "step_values": [round(v, 4) for v in row[: len(ends)].tolist()],
                    "advantage": weight,
                }
                for hypotheses, row, ends, weight in zip(
                    own_sets, values, step_ends, mean_weights.tolist(), strict=True
                )
            ]
        )
        return output

    def _share_verdicts(self, inputs, completions):
        """Has each answer judged by one process: a time-out may differ between two."""
        rank, world = self.accelerator.process_index, self.accelerator.num_processes
        if world == 1:
            return
        for reward in self._accuracy_rewards:
            own = reward.pairs(completions, [row["solution"] for row in inputs])
            pairs = list(dict.fromkeys(whole(gather_object(own))))
            judged = reward.grader.verify_all(pairs[rank::world])
            for verdicts in gather_object([judged]):
                reward.grader.remember(verdicts)

    def _outcome_rewards(self) -> Tensor:
        """Outcome reward of all processes' rollouts, (N,); NaN where every reward is None."""
        rewards = self._rewards_per_func
        unscorable = rewards.isnan().all(dim=1)
        weighted = rewards * self.reward_weights.to(rewards.device)
        return weighted.nansum(dim=1).masked_fill(unscorable, torch.nan)

    def _share_hypotheses(self) -> tuple[list[str | None], list[HypothesisSet | None]]:
        """The answer of every rollout of all processes, and the hypothesis set of every group.

        A group may straddle processes, and a comparison may time out on one process and not on
        another: each group's set is made by one process and shared.
        """
        texts = map(completion_text, self._generated.completions)
        own_answers = [self.answer_extractor(text) for text in texts]
        own_truths = [truth_answer(row[self.args.solution_column]) for row in self._inputs]
        pairs = gather_object(list(zip(own_answers, own_truths, strict=True)))
        answers, size = [answer for answer, _ in pairs], self.num_generations
        world = self.accelerator.num_processes
        own = {
            g: merge_hypotheses(
                pairs[g * size][1],
                answers[g * size : (g + 1) * size] if self.args.hypotheses == "rollouts" else [],
                equivalent=self.answer_equivalence,
                max_answer_chars=self.args.max_answer_chars,
                max_hypotheses=self.args.max_hypotheses,
                special_tokens=self._special_tokens,
            )
            for g in range(self.accelerator.process_index, len(pairs) // size, world)
        }
        shared = gather_object([own])
        return answers, [shared[g % world][g] for g in range(len(pairs) // size)]

    def _score(self, *, read_completions: bool = False) -> Scored:
        """Forms hypotheses and reads their log-likelihoods, with the completions' own if wanted."""
        answers, sets = self._share_hypotheses()
        start = self.accelerator.process_index * len(self._inputs)
        own = range(start, start + len(self._inputs))
        own_sets = [sets[n // self.num_generations] for n in own]
        end_ids = [*self.eos_token_ids, self._tokenizer.pad_token_id]
        step_ends, rollouts = [], []
        for prompt_ids, completion_ids, _, hypotheses in zip(
            *self._generated, own_sets, strict=True
        ):
            chain = chain_of_thought(completion_ids, end_ids)
            step_ends.append(step_ends_of(chain, self.step_segmenter))
            rollouts.append(
                self.elicitation.rollout(
                    prompt_ids,
                    completion_ids if read_completions else chain,
                    step_ends[-1],
                    hypotheses.answers if hypotheses else (),
                    read_completion=read_completions,
                )
            )
        started = time.perf_counter()
        with profiling_context(self, "score_hypotheses"), self.accelerator.autocast():
            likelihoods = answer_log_likelihoods(
                self.model,
                rollouts,
                elicitation_ids=self.elicitation.token_ids,
                reduction=self.args.answer_likelihood,
                method=self.args.scoring_method,
                temperature=self.args.plausibility_temperature,
                own_temperature=self.temperature,
                max_tokens=self._scoring_max_tokens,
            )
        if torch.accelerator.is_available():
            torch.accelerator.synchronize()
        self._metrics["train"]["barl/scoring_seconds"].append(time.perf_counter() - started)
        return Scored(answers, sets, own_sets, step_ends, likelihoods)

    def _hypothesis_outcomes(self, outcomes: Tensor, own_sets, start: int, scored) -> Tensor:
        """`outcomes` (B,), or with `outcome_mode="hypothesis"` each hypothesis's own (B, H)."""
        if self.args.outcome_mode == "ground_truth":
            return outcomes
        rewards = torch.zeros_like(scored.hypothesis_mask, dtype=outcomes.dtype)
        for b, hypotheses in enumerate(own_sets):
            member = hypotheses and hypotheses.members[(start + b) % self.num_generations]
            if member is not None:
                rewards[b, member] = 1.0
        rewards[:, 0] = outcomes
        return rewards

    def _weighed_tokens(self, output, step_ends, own_sets, outcomes: Tensor) -> Tensor:
        """The model's tokens (B, L) up to the end of the turn, of rollouts that can be judged."""
        # a `rollout_func` may mark tokens that are not the model's
        completion_mask = output["completion_mask"] * output.get("tool_mask", 1)
        is_judged = torch.tensor([s is not None for s in own_sets], device=outcomes.device)
        lengths = torch.tensor([ends[-1] if ends else 0 for ends in step_ends])
        places = torch.arange(completion_mask.shape[1])
        in_turn = (places <= lengths[:, None]).to(completion_mask.device)
        return completion_mask.bool() & in_turn & (is_judged & outcomes.isfinite())[:, None]

    def _normalize(self, weights: Tensor, mask: Tensor, start: int) -> Tensor:
        """Token weights (B, L) whitened over the rollout batch of all processes, or each group."""
        if self.args.value_normalization == "none":
            return weights
        groups = torch.zeros(len(weights), dtype=torch.long, device=weights.device)
        if self.args.value_normalization == "group":
            groups = (start + torch.arange(len(weights)).to(groups)) // self.num_generations
        num_groups = len(weights) * self.accelerator.num_processes // self.num_generations
        own = moments(weights, mask, groups, num_groups=num_groups)
        totals: Any = self.accelerator.reduce(own, reduction="sum")
        return standardize(weights, groups, totals).masked_fill(~mask, 0.0)

    def _log_diagnostics(self, scored, values, mask, outcomes, answers, sets):
        """Belief diagnostics of the rollout batch of all processes, through TRL's metrics."""
        beta = self.args.consistency_beta
        masks = scored.state_mask, scored.hypothesis_mask
        own = torch.stack(
            rollout_diagnostics(scored.answer_logps, values, *masks, beta=beta), dim=1
        )
        columns: Any = self.accelerator.gather(
            own.masked_fill(~mask.any(dim=1)[:, None], torch.nan)
        )
        gathered = RolloutDiagnostics(*columns.unbind(dim=1))
        metrics = {name: column.nanmean().item() for name, column in gathered._asdict().items()}
        metrics["value_spread_equal_outcome"] = value_spread(
            gathered.value, outcomes, group_size=self.num_generations
        )
        metrics |= hypothesis_metrics(sets, answers)
        num_tokens, max_tokens = zip(
            *gather_object([(scored.num_tokens, scored.max_tokens)]), strict=True
        )
        metrics["scoring_tokens"] = sum(num_tokens)
        # what one process had no memory for, no other tries again
        metrics["scoring_max_tokens"] = self._scoring_max_tokens = min(max_tokens)
        for name, value in metrics.items():
            self._metrics["train"][f"barl/{name}"].append(value)

    def _log_clipped_ratios(self, output):
        """The share of all processes' tokens whose vLLM importance ratio was truncated or masked:
        TRL logs the ratios behind that alone.
        """
        counts = clipped_tokens(
            output["importance_sampling_ratio"],
            (output["completion_mask"] * output.get("tool_mask", 1)).bool(),
            mode=self.vllm_importance_sampling_mode,
            clip_min=self.vllm_importance_sampling_clip_min,
            clip_max=self.vllm_importance_sampling_clip_max,
        )
        totals: Any = self.accelerator.reduce(counts, reduction="sum")
        num_clipped, num_tokens = totals.tolist()
        metrics = self._metrics["train" if self.model.training else "eval"]
        name = "sampling/importance_sampling_ratio/frac_clipped"
        metrics[name].append(num_clipped / max(num_tokens, 1))

    def _log_table(self, own_rows: list[dict[str, Any]]):
        """Puts BARL's columns into TRL's completions table, its weights for the GRPO advantages."""
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
        if self.model.training and metrics.get("step_time"):
            # of all time so far: several steps may train on the rollouts of one
            self._seconds["scoring"] += sum(metrics.get("barl/scoring_seconds", []))
            self._seconds["step"] += sum(metrics["step_time"])
            share = self._seconds["scoring"] / self._seconds["step"]
            metrics["barl/scoring_share_of_time"].append(share)
        super().log(logs, start_time)
