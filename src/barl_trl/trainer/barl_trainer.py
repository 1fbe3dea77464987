"""`BARLTrainer`: TRL's `GRPOTrainer`, which weights every token by its step's posterior-weighted
value.
"""

import logging
import os
import textwrap
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from accelerate.utils import gather_object
from datasets import Dataset, IterableDataset
from peft import PeftModel
from torch import Tensor, nn
from transformers import PreTrainedModel, PreTrainedTokenizerBase
from transformers.integrations import is_deepspeed_zero3_enabled
from trl.extras.profiling import profiling_context

from ..credit.token_weights import token_weights
from ..plausibility.budget import scoring_token_budget
from ..plausibility.checks.model_traits import causal_lm, rope_depends_on_length
from ..plausibility.kv_cache import GenerationRecorder
from ..rewards import RewardFunc
from ..steps import StepSegmenter, fixed_size_steps
from .baseline_trainer import BaselineTrainer
from .checks import answer_equivalence_of, answer_extractor_of, check_trainer_arguments
from .config import BARLConfig
from .logging.belief_log import BeliefLog
from .logging.health import HealthCallback
from .logging.rollout_recorder import RolloutRecorder
from .rollouts.agents import ROLLOUT_ANSWER
from .rollouts.all_rollouts import scored_rollouts
from .rollouts.evidence import TaskFunctions
from .rollouts.hypothesis_scorer import Generated, HypothesisScorer, Scored
from .rollouts.old_logps import OldLogpsMixin
from .rollouts.rollout_batch import RolloutBatch
from .rollouts.shared_verdicts import share_verdicts
from .rollouts.zero3 import gather_head_with_model

_REASONS = "verdict"
"""Column of TRL's completions table in which graders give the reason of each verdict."""


def _is_no_missing_reward(record: logging.LogRecord) -> bool:
    return "All reward functions returned None" not in str(record.msg)


def _fields_of(n: int, fields: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of one rollout; by TRL's rule all rollouts share what is no list."""
    return {
        name: values[n] if isinstance(values, list) else values
        for name, values in fields.items()
        if not isinstance(values, list) or n < len(values)
    }


class BARLTrainer(OldLogpsMixin, BaselineTrainer):
    """Trainer for Bayes-Adaptive RL for LLM Reasoning (BARL,
    https://huggingface.co/papers/2505.20561).

    The only change from [`~trl.GRPOTrainer`] is the weight of the tokens in the policy gradient.
    The answers of a prompt's rollouts and the true answer are hypotheses. The tokens of each
    reasoning step get the step's value under the posterior over these hypotheses, instead of one
    group-relative advantage for the whole completion. Generation, rewards, loss, vLLM, KL, PEFT
    and evaluation are inherited unchanged.

    So is TRL's loop of tools and environments. In a rollout of several turns a step is a turn of
    the model and the observation behind it, and only the model's own tokens have weights.

    What it relies on in TRL: TRL makes the calls that [`RolloutBatch`] lists, in that order;
    `_generate(prompts)` returns token ids and completions, and runs transformers' `generate` on
    the model unless vLLM or a `rollout_func` generates; `_calculate_rewards` returns the rewards of
    all processes; `_generate_and_score_completions(inputs)` returns `completion_mask`, `advantages`
    and, with vLLM, `importance_sampling_ratio`; the loss takes `advantages` of shape (B, L); the
    trainer has `_tokenizer`, `eos_token_ids`, `reward_weights` and `_is_vlm`. `contract.py` lists
    the names that this class and its mixins rely on.

    Args:
        model: A causal language model, or its id on the Hub or folder, from which it is loaded.
        reward_funcs: Functions of completions and the data set's columns, reward models or their
            ids on the Hub, or names that [`get_reward_func`] knows, such as the name of a grader.
            Their weighted sum is the outcome reward. None are needed where the environment has a
            reward.
        args: The settings. Defaults to a [`BARLConfig`] with the default of every field.
        train_dataset: Prompts, with the true answers in the column `args.solution_column`.
        eval_dataset: Prompts that are evaluated as they are sampled in training, or a dict of
            several such sets by name.
        processing_class: A tokenizer. Defaults to the model's.
        answer_extractor: Completion -> its final answer, or `None` without one; or a grader's name.
            It forms the hypotheses; `reward_funcs` must read the same answers. Defaults to the
            extraction of the first grader among `reward_funcs`, else to [`extract_answer`].
        answer_equivalence: Two answers -> whether they are one hypothesis; or a grader's name.
            Defaults to the verdict of the first grader among `reward_funcs`, else of the default
            grader.
        step_segmenter: Token ids of a chain of thought -> the ends of its reasoning steps. Defaults
            to steps of `args.step_size` tokens. Where there are several turns, it gets the words
            of each; by default each is a step.
        observation_likelihood: What the task says of observations: columns of rollouts -> for each
            rollout, step and hypothesis the log-likelihood of what the step brought, in nats; 0 if
            the hypothesis says that this is what is seen, -inf if it cannot be. It is called with
            `prompts`, `completions`, `hypotheses` (of each rollout its texts, the truth first),
            `steps` (of each rollout the text of each step, or with tools the messages of each
            step), the data set's other columns and, with an environment, `environments`. An
            environment may have the method `_observation_log_likelihoods(hypotheses, steps)`
            instead. It needs `args.belief` to be `"task"` or `"both"`.
        hypothesis_rewards: Called in the same way, it returns the rewards that each hypothesis
            predicts for each step, those of the truth, the observed ones, first. They take the
            place of the progress rewards in the consistency, eq. (error), and in the values.
        outcome_under: Answer, hypothesis -> the outcome reward if the hypothesis is true. Defaults
            to 1 for the hypothesis that the rollout answers, 0 for others.
        **kwargs: The other arguments of [`~trl.GRPOTrainer`]. Images are refused. With `tools`, an
            `environment_factory` or a `rollout_func` it trains agents: an environment may tell the
            answer of a rollout with its attribute `answer`, a `rollout_func` with its field
            `answer`. `benchmarks` are problem sets that are evaluated greedily: see
            [`BaselineTrainer`].

    Raises:
        ValueError: BARL cannot honour a setting or a data set (raised before any model is loaded),
            or the model has an image processor (raised after it is loaded).
        TypeError: `args` is not a [`BARLConfig`].
        ImportError: `args.use_vllm` without vLLM.
        RuntimeError: A grader's process cannot be started.

    Example:
    ```python
    >>> trainer = BARLTrainer(
    ...     "Qwen/Qwen2.5-Math-1.5B", "accuracy_reward", train_dataset=dataset
    ... )  # doctest: +SKIP
    ```
    """

    _tag_names = ["trl", "barl"]
    _name = "BARL"
    _paper = {
        "title": "Beyond Markovian: Reflective Exploration via Bayes-Adaptive RL for LLM Reasoning",
        "id": "2505.20561",
        "citation": textwrap.dedent("""\
            @inproceedings{zhang2026beyond,
                title     = {{Beyond Markovian: Reflective Exploration via Bayes-Adaptive RL for LLM Reasoning}},
                author    = {Shenao Zhang and Yaqing Wang and Yinxiao Liu and Tianqi Liu and Peter Grabowski and Eugene Ie and Zhaoran Wang and Yunxuan Li},
                booktitle = {International Conference on Learning Representations (ICLR)},
                year      = 2026, eprint = {arXiv:2505.20561},
            }"""),  # noqa: E501
    }

    _attributes_to_resume = (
        *BaselineTrainer._attributes_to_resume,
        "_seconds",
        "_first_length",
    )

    args: BARLConfig
    model: nn.Module
    num_generations: int

    def __init__(
        self,
        model: str | os.PathLike[str] | PreTrainedModel | PeftModel,
        reward_funcs: RewardFunc | str | Sequence[RewardFunc | str] | None = None,
        args: BARLConfig | None = None,
        train_dataset: Dataset | IterableDataset | None = None,
        eval_dataset: Dataset | IterableDataset | dict[str, Any] | None = None,
        processing_class: PreTrainedTokenizerBase | None = None,
        *,
        answer_extractor: Callable[[str], str | None] | str | None = None,
        answer_equivalence: Callable[[str, str], bool] | str | None = None,
        step_segmenter: StepSegmenter | None = None,
        observation_likelihood: Callable[..., Any] | None = None,
        hypothesis_rewards: Callable[..., Any] | None = None,
        outcome_under: Callable[[str, str], float] | None = None,
        **kwargs: Any,
    ):
        if args is None:
            name = model.config._name_or_path if isinstance(model, nn.Module) else os.fspath(model)
            args = BARLConfig(f"{name.split('/')[-1]}-BARL")
        answer_extractor = answer_extractor_of(answer_extractor)
        answer_equivalence = answer_equivalence_of(answer_equivalence)
        functions = TaskFunctions(observation_likelihood, hypothesis_rewards, outcome_under)
        keywords = {
            "answer_extractor": answer_extractor,
            "answer_equivalence": answer_equivalence,
            "step_segmenter": step_segmenter,
            "processing_class": processing_class,
            **functions._asdict(),
        } | kwargs
        check_trainer_arguments(model, args, reward_funcs, train_dataset, eval_dataset, keywords)
        super().__init__(
            model,
            reward_funcs,
            args,
            train_dataset,
            eval_dataset=eval_dataset,
            processing_class=processing_class,
            **kwargs,
        )
        if self._is_vlm:
            raise ValueError(
                "processing_class must be a tokenizer, got a processor: BARLTrainer is text-only."
            )
        self._say_once("unused", args.unused())
        grader = self._judge.grader
        self.reads_boxes = answer_extractor is None and grader.extraction == "boxed"
        if answer_equivalence is None:
            grader.start()
        self.scorer = HypothesisScorer(
            self._tokenizer,
            args.own_credit,
            args,
            answer_extractor or grader.extract_answer,
            answer_equivalence or grader.equivalent,
            step_segmenter or partial(fixed_size_steps, step_size=args.step_size),
            end_ids=self._turn_end_ids,
            divides_turns=step_segmenter is not None,
            functions=functions,
        )
        self._is_cost = torch.tensor([getattr(f, "is_cost", False) for f in self.reward_funcs])
        if is_deepspeed_zero3_enabled():
            gather_head_with_model(self.model)
        self._depends_on_padding = rope_depends_on_length(
            causal_lm(self.model).config.get_text_config()
        )
        self._scoring_max_tokens = args.scoring_max_tokens
        self._seconds = {"scoring": 0.0, "step": 0.0}
        self._first_length: float | None = None  # mean tokens of the first batch's completions
        self._batch = RolloutBatch([], start=0)
        self._belief_log = BeliefLog(self)
        self.add_callback(self._belief_log)
        health: Any = self.pop_callback(HealthCallback)
        self.add_callback(health)  # after BARL's callback, whose advice is more specific
        self._recorder = RolloutRecorder(self) if args.log_beliefs else None
        if self._recorder is not None:
            self.add_callback(self._recorder)

    def _generate(self, prompts):
        is_scored = self.args.scores_answers
        may_go_on = is_scored and self.args.scoring_method != "reencode" and not self.rollout_func
        with GenerationRecorder(self.model, keeps=self.model.training and may_go_on) as recorder:
            output = super()._generate(prompts)
        prompt_ids, completion_ids, masks, completions, _, columns, *_ = output
        if any("answer" in row for row in self._batch.inputs):
            columns.pop("answer", None)  # the data's stays; what was told is in `rollout_answer`
        # a rollout_func may bring true answers, which are not known before it returns, and may
        # generate with other weights than the policy's
        passes = (self.args.steps_per_generation or 1) * self.num_iterations
        is_stale = self.args.gradient_accumulation_steps % passes != 0
        is_corrected = self.use_vllm and self.vllm_importance_sampling_correction
        is_known = self.args.solution_column not in columns
        names = [name for name in columns if name not in (ROLLOUT_ANSWER, "answer")]
        self._batch.inputs = [
            row | _fields_of(n, {name: columns[name] for name in names})
            for n, row in enumerate(self._batch.inputs)
        ]
        is_asked = is_scored and (is_stale or is_corrected) and not self._depends_on_padding
        asks = self.model.training and is_known and is_asked
        is_of_use = self.model.training and may_go_on and not asks
        sequences = [[*p, *c] for p, c in zip(prompt_ids, completion_ids, strict=True)]
        cache = recorder.cache(sequences) if is_of_use else None
        self._say_once("cache", recorder.advice(cache) if is_of_use else None)
        self._batch.generated = Generated(
            prompt_ids,
            completion_ids,
            completions,
            cache,
            masks,
            columns.get(ROLLOUT_ANSWER),
            has_tools=bool(self.tools),
            environments=self.environments,
        )
        self._batch.asks_for_old_logps = asks
        # score now: the cache is large, and the weights are still those that generated it
        if self.model.training and is_known:
            self._share_verdicts(self._batch.inputs, completions)
            self._batch.scored = self._score(score_completions=asks)
        return output

    def _calculate_rewards(self, inputs, prompts, completions, completion_ids_list):
        self._batch.asks_for_old_logps = False  # TRL asks before it computes rewards, or never
        self._share_verdicts(inputs, completions)
        # that all rewards of a rollout are None is no mistake if no outcome is needed
        trl_logger = logging.getLogger("trl.trainer.grpo_trainer")
        if not self.scorer.credit.needs_truth:
            trl_logger.addFilter(_is_no_missing_reward)
        try:
            rewards = super()._calculate_rewards(inputs, prompts, completions, completion_ids_list)
        finally:
            trl_logger.removeFilter(_is_no_missing_reward)
        self._batch.rewards_per_func = rewards
        return rewards

    def _log_completion_extra(self, column, values):
        if column == _REASONS and self._batch.reasons is None:
            self._batch.reasons = [*map(str, values)]
        super()._log_completion_extra(column, values)

    def _generate_and_score_completions(self, inputs):
        self._batch = RolloutBatch(inputs, self.accelerator.process_index * len(inputs))
        output = super()._generate_and_score_completions(inputs)
        if "importance_sampling_ratio" in output:
            self._belief_log.log_clipped_ratios(output)
        if self.model.training:
            output["advantages"] = self._token_weights(output)
        else:
            self._belief_log.log_table([{}] * len(inputs))
        return output

    def _token_weights(self, output: dict[str, Any]) -> Tensor:
        """Weight this process's completion tokens, log the rollout batch, and record it if wanted.

        Args:
            output: What TRL's `_generate_and_score_completions` returned.

        Returns:
            The token weights, (B, L).
        """
        batch = self._batch
        batch.scored = batch.scored or self._score()
        reduce: Any = self.accelerator.reduce
        rollouts = scored_rollouts(
            self.accelerator,
            batch.scored,
            batch.outcome_rewards(self.reward_weights),
            group_size=self.num_generations,
            beta=self.args.consistency_beta,
            belief=self.args.belief,
            costs=batch.costs(self.reward_weights, self._is_cost) if self._is_cost.any() else None,
            outcome_scale=self._outcome_scale,
            needs_truth=self.scorer.credit.needs_truth,
        )
        weighed = token_weights(
            rollouts,
            self.scorer.credit,
            self.args.settings | self.args.settings["credit_options"],
            batch.scored.step_ends,
            batch.weighable_tokens(output),
            start=batch.start,
            sum_over_processes=partial(reduce, reduction="sum"),
        )
        local_rollouts = rollouts.rows(batch.start, batch.start + len(batch.inputs))
        self._belief_log.log_rollouts(batch, local_rollouts, weighed)
        if self._recorder is not None:
            self._recorder.record(batch, local_rollouts, weighed, output)
        return weighed.weights

    @property
    def _outcome_scale(self) -> float:
        """The outcome reward of a right answer: the weight of the reward that is no cost."""
        weights = self.reward_weights.cpu()[~self._is_cost]
        return weights.item() if len(weights) == 1 else 1.0

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """Log as TRL does, with the share of the time so far that scoring took."""
        metrics = self._metrics["train"]
        if self.model.training and metrics.get("step_time"):
            # the share of all time so far: several optimizer steps may train on one rollout batch
            self._seconds["scoring"] += sum(metrics.get("barl/scoring_seconds", []))
            self._seconds["step"] += sum(metrics["step_time"])
            share = self._seconds["scoring"] / self._seconds["step"]
            metrics["barl/scoring_share_of_time"].append(share)
        super().log(logs, start_time)

    def _share_verdicts(self, inputs, completions) -> None:
        given = self._batch.generated.given_answers
        for reward in self._accuracy_rewards:
            share_verdicts(reward, completions, [row.get("solution") for row in inputs], given)

    def _score(self, *, score_completions: bool = False) -> Scored:
        """Form this process's hypotheses and score their answers at every state.

        Args:
            score_completions: Whether the same pass also scores the completions' own tokens.
        """
        batch, started = self._batch, time.perf_counter()
        with profiling_context(self, "score_hypotheses"), self.accelerator.autocast():
            budget = self._scoring_max_tokens or scoring_token_budget(self.model)
            scored = self.scorer.score(
                self.model,
                batch.generated,
                batch.inputs,
                start=batch.start,
                group_size=self.num_generations,
                score_completions=score_completions,
                completion_temperature=self.temperature,
                max_tokens=budget,
                is_first=self.state.global_step == 0,
            )
        if torch.accelerator.is_available():
            torch.accelerator.synchronize()
        seconds, checks = time.perf_counter() - started, scored.likelihoods.check_seconds
        self._metrics["train"]["barl/scoring_seconds"].append(seconds - checks)
        if checks:
            self._metrics["train"]["barl/check_seconds"].append(checks)
        batch.generated = batch.generated._replace(cache=None)  # it may take gigabytes
        # where one process ran out of memory, no process tries as many tokens again
        used_and_allowed = gather_object([(scored.likelihoods.max_tokens, budget)])
        halved = [used for used, allowed in used_and_allowed if used < allowed]
        self._scoring_max_tokens = min(halved, default=self._scoring_max_tokens)
        self._metrics["train"]["barl/scoring_max_tokens"].append(min(used_and_allowed)[0])
        return scored
