"""`BARLTrainer`: TRL's `GRPOTrainer`, which weights every token by its step's posterior-weighted
value.
"""

import logging
import os
import textwrap
import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from accelerate.utils import gather_object, send_to_device
from datasets import Dataset, IterableDataset
from peft import PeftModel
from torch import Tensor, nn
from transformers import PreTrainedModel, PreTrainedTokenizerBase
from transformers.integrations import is_deepspeed_zero3_enabled
from trl.extras.profiling import profiling_context

from ..credit.token_weights import token_weights
from ..plausibility.budget import scoring_token_budget
from ..plausibility.model_traits import causal_lm, depends_on_left_padding, gather_head_with_model
from ..rewards import AccuracyReward, RewardFunc, accuracy_reward, resolve_rewards
from ..rows import messages_of
from ..steps import StepSegmenter, fixed_size_steps
from .boundary import ended_by, guard_tools, guarded, hide_methods, readable
from .checks import (
    alone_in_launch,
    answer_equivalence_of,
    answer_extractor_of,
    check_kinds,
    check_trainer_arguments,
    checked_reward,
    needs_no_outcome,
    refuse_unusable_tokenizer,
)
from .config import BARLConfig
from .evaluation import check_benchmarks, evaluate_benchmarks, metrics_of_set
from .evidence import TaskFunctions
from .hub import complete_card, write_card
from .metrics import BatchLog
from .progress import rows_alone
from .recorder import RolloutRecorder
from .resume import ResumeMixin, left_in
from .scoring import HypothesisScorer, RolloutBatch, Scored, scored_rollouts, share_verdicts
from .turn_rewards import (
    FIELD,
    OWN_HYPOTHESES,
    OWN_PRIOR,
    StateKey,
    TurnReturn,
    log_turn_rewards,
    told_tasks,
)
from .turns import ROLLOUT_ANSWER, Episode, Generated, episodes_of, read_generated, tell_ends

logger = logging.getLogger(__name__)

FIRST_RATIO = "barl/first_ratio"
"""Name of the metric of the importance ratio in the first optimizer step."""
_MOST_FIRST_RATIO = {torch.bfloat16: 1.15}
"""Largest first ratio that rounding explains, by dtype; 1.01 in other dtypes. SmolLM2 has 1.000003
in float32 and 1.03 in bfloat16; outside of this project ratios of 1.002 to 1.05 were measured."""


class Rows(list[dict[str, Any]]):
    """The rows of a batch, which go to the device as they are if they have no tensors.

    accelerate would look at every text of every list in them: with a thousand hypotheses in each
    row this takes longer than the belief over them.
    """

    def to(self, device: Any, **kwargs: Any) -> "Rows":
        """Return the rows with their tensors on a device."""
        has_tensors = any(hasattr(cell, "to") for row in self for cell in row.values())
        return Rows(send_to_device([*self], device, **kwargs)) if has_tensors else self


class _PlayedError(Exception):
    """Ends TRL's method once the rollouts of a batch are generated."""


def _is_no_missing_reward(record: logging.LogRecord) -> bool:
    return "All reward functions returned None" not in str(record.msg)


def _fields_of(n: int, fields: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of one rollout; by TRL's rule all rollouts share what is no list."""
    return {
        name: values[n] if isinstance(values, list) else values
        for name, values in fields.items()
        if not isinstance(values, list) or n < len(values)
    }


class BARLTrainer(ResumeMixin):
    """Trainer for Bayes-Adaptive RL for LLM Reasoning (BARL,
    https://huggingface.co/papers/2505.20561).

    The only change from [`~trl.GRPOTrainer`] is the weight of the tokens in the policy gradient.
    The answers of a prompt's rollouts and the true answer are hypotheses. The tokens of each
    reasoning step get the step's value under the posterior over these hypotheses, instead of one
    group-relative advantage for the whole completion. Generation, rewards, loss, vLLM, KL, PEFT
    and evaluation are inherited unchanged.

    So is TRL's loop of tools and environments. In a rollout of several turns a step is a turn of
    the model and the observation behind it, and only the model's own tokens have weights.

    ```
    generate (TRL) -> reward (TRL) -> score -> token_weights -> loss (TRL)
    ```

    What it relies on in TRL: `_generate_and_score_completions` calls `_generate`, then, if rollouts
    may be stale or vLLM's ratio is corrected, `_get_per_token_logps_and_entropies` for the old
    log-probabilities, then `_calculate_rewards`; the loss takes `advantages` of shape (B, L).
    `contract.py` lists the names.

    Args:
        model: A causal language model, or its id on the Hub or folder, from which it is loaded.
        reward_funcs: Functions of completions and the data set's columns, reward models or their
            ids on the Hub, or names that [`get_reward_func`] knows, such as the name of a grader.
            Their weighted sum is the outcome reward. An environment's own reward suffices.
        args: The settings. Defaults to a [`BARLConfig`] with the default of every field.
        train_dataset: Prompts, with the true answers in the column `args.solution_column`.
        eval_dataset: Prompts that are evaluated as they are sampled in training, or a dict of
            several such sets by name.
        processing_class: A tokenizer. Defaults to the model's.
        answer_extractor: Completion -> its final answer, or `None` without one; or a grader's name.
            It forms the hypotheses; `reward_funcs` must read the same answers. Defaults to the
            extraction of the first grader among `reward_funcs`, else to [`extract_answer`].
        answer_equivalence: Two answers -> whether they are one hypothesis; or a grader's name. With
            `**columns` it also gets the row's columns.
            Defaults to the verdict of the first grader among `reward_funcs`, else of the default
            grader.
        step_segmenter: Token ids of a chain of thought -> the ends of its reasoning steps. Defaults
            to steps of `args.step_size` tokens. Where there are several turns, it gets the words
            of each; by default each is a step.
        observation_likelihood: What the task says of observations: columns of rollouts -> for each
            rollout, step and hypothesis the log-likelihood of what the step brought, in nats, -inf
            if it cannot be. It gets `prompts`, `completions`, `hypotheses` (texts, the truth
            first), `steps` (texts, or an agent's messages), the data's other columns and
            `environments`. An environment may have the method
            `_observation_log_likelihoods(hypotheses, steps)` instead. `args.belief` must be
            `"task"` or `"both"`.
        hypothesis_rewards: Called in the same way, it returns the rewards that each hypothesis
            predicts for each step, those of the truth, the observed ones, first. They take the
            place of the progress rewards in the consistency, eq. (error), and in the values.
        outcome_under: Answer, hypothesis -> the outcome reward if the hypothesis is true. Defaults
            to 1 for the hypothesis that the rollout answers, 0 for others.
        turn_rewards: Columns of rollouts -> for each rollout the rewards r_t of its turns, or of
            its steps, as a process reward gives them. It gets what `observation_likelihood` gets,
            but no hypotheses. An environment may tell them with its attribute `turn_rewards`, a
            `rollout_func` with its field of that name. They join the values of any credit, and
            need no `reward_funcs`, no truth and no hypotheses.
        state_key: The steps before a state -> what is equal where two states are, for
            `credit_baseline="state"`. Defaults to the text of the last observation.
        benchmarks: Benchmark name -> its problems, with the columns `prompt` and `solution`, which
            are solved greedily whenever TRL evaluates. The first of `reward_funcs` that has a
            grader judges them, else the default grader. They need no `eval_dataset`.
        **kwargs: The other arguments of [`~trl.GRPOTrainer`]; images are refused. An environment
            may tell a rollout's answer with its attribute `answer`, which is None after `reset`, a
            `rollout_func` with its field `answer`.

    Raises:
        ValueError: BARL cannot honour a setting or a data set (raised before any model is loaded),
            or the model has an image processor.
        TypeError: An argument is something else, such as `args` that is no [`BARLConfig`].
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

    args: BARLConfig
    model: Any
    num_generations: int
    cut_behind_call: Callable[[str], tuple[list[int], int]]
    has_compared = False

    @guarded
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
        answer_equivalence: Callable[..., bool] | str | None = None,
        step_segmenter: StepSegmenter | None = None,
        observation_likelihood: Callable[..., Any] | None = None,
        hypothesis_rewards: Callable[..., Any] | None = None,
        outcome_under: Callable[[str, str], float] | None = None,
        turn_rewards: Callable[..., Any] | None = None,
        state_key: StateKey | None = None,
        benchmarks: Mapping[str, Dataset] | None = None,
        **kwargs: Any,
    ):
        arguments = locals() | kwargs
        functions = TaskFunctions(observation_likelihood, hypothesis_rewards, outcome_under)
        check_kinds(arguments)
        if args is None:
            name = model.config._name_or_path if isinstance(model, nn.Module) else os.fspath(model)
            args = BARLConfig(f"{name.split('/')[-1]}-BARL")
        answer_extractor = answer_extractor_of(answer_extractor)
        answer_equivalence = answer_equivalence_of(answer_equivalence)
        arguments["args"] = args
        rewards = check_trainer_arguments(arguments)
        self._said: set[Hashable] = set()
        self.benchmarks = dict(benchmarks or {})
        check_benchmarks(self.benchmarks)
        if self.benchmarks and eval_dataset is None:
            eval_dataset = {}  # `Trainer` refuses to evaluate without a data set
        self._choose_judge(rewards, args)
        self.credit = args.credit_for(rewards)
        self._turn_return = TurnReturn()
        super().__init__(
            os.fspath(model) if isinstance(model, os.PathLike) else model,
            rewards or [self._turn_return] * needs_no_outcome(arguments),
            args,
            train_dataset,
            eval_dataset=eval_dataset,
            processing_class=processing_class,
            **{name: arguments[name] for name in kwargs},
        )
        if self._is_vlm:
            raise ValueError("processing_class must be a tokenizer, got a processor: no images.")
        self.data_collator: Any = Rows
        refuse_unusable_tokenizer(self._tokenizer, self.train_dataset)
        hide_methods(self)
        tell_ends(self)
        self._hears_rewards = args.hears_rewards(functions.hypothesis_rewards is not None)
        self._say_once("unused", args.unused(self._hears_rewards))
        self._say_once("launch", alone_in_launch())
        grader = self._judge.grader
        self.reads_boxes = answer_extractor is None and grader.extraction == "boxed"
        if answer_equivalence is None:
            grader.start()
        self.scorer = HypothesisScorer(
            self._tokenizer,
            self.credit,
            args,
            answer_extractor or grader.extract_answer,
            answer_equivalence or grader.equivalent,
            step_segmenter or partial(fixed_size_steps, step_size=args.step_size),
            end_ids=self.turn_end_ids,
            divides_turns=step_segmenter is not None,
            functions=functions,
            turn_rewards=turn_rewards,
            state_key=state_key,
        )
        self.reward_funcs = [*map(checked_reward, self.reward_funcs, self.reward_func_names)]
        if is_deepspeed_zero3_enabled():
            gather_head_with_model(self.model)
        self._depends_on_padding = depends_on_left_padding(self.model)
        self._scoring_max_tokens = args.scoring_max_tokens
        self._last_results: dict[int, list[dict[str, Any]]] = {}
        self._only_plays = self._asks_for_old_logps = False
        self._generated = Generated([], [], [])
        self._inputs: list[dict[str, Any]] = []
        self._rewards_per_func, self._reasons = torch.empty(0), None
        self._scored: Scored | None = None
        self._first_inputs: dict[str, Tensor] | None = None
        self._batch_log = BatchLog(self)
        self.add_callback(self._batch_log)
        self._recorder = RolloutRecorder(self) if args.log_beliefs else None
        if self._recorder is not None:
            self.add_callback(self._recorder)
        rows_alone(self)
        if isinstance(self.model, PeftModel):  # its own card says nothing of the run
            self.model.create_or_update_model_card = partial(write_card, self)  # type: ignore[method-assign]

    def _choose_judge(self, rewards: Sequence[Any], args: BARLConfig) -> None:
        """Choose the grader of answers and benchmarks, and start the graders' processes."""
        self._accuracy_rewards = [one for one in rewards if isinstance(one, AccuracyReward)]
        default = resolve_rewards(accuracy_reward, args.extraction)
        self._judge: AccuracyReward = (self._accuracy_rewards or [default])[0]
        for judge in [*self._accuracy_rewards, *([self._judge] if self.benchmarks else [])]:
            judge.grader.start()

    def _say_once(self, about: Hashable, text: str | None) -> None:
        """Log a warning, if there is a text, on the main process, once per subject."""
        if text and about not in self._said and self.accelerator.is_main_process:
            self._said.add(about)
            logger.warning(text)

    @property
    def turn_end_ids(self) -> list[int]:
        """Ids of the tokens that end a turn, and of the padding."""
        ids: list[Any] = [*self.eos_token_ids, self._tokenizer.pad_token_id]
        return ids

    # a rollout batch, in the order in which TRL calls

    @property
    def rollout_rows(self) -> list[dict[str, Any]]:
        """The rows of the data set of this process's rollouts, for a `rollout_func`."""
        return self._inputs

    @guarded
    def _generate_and_score_completions(self, inputs):
        began = time.perf_counter()
        # Arrow gives a message the keys of all others, as null
        inputs = [row | {"prompt": messages_of(row["prompt"]) or row["prompt"]} for row in inputs]
        self._inputs, self._scored = inputs, None
        if self.environment_factories is None:
            self.environments = None  # those of the batch before, which a `rollout_func` told
        output = super()._generate_and_score_completions(inputs)
        if "importance_sampling_ratio" in output:
            self._batch_log.log_clipped_ratios(output)
        if self.model.training:
            output["advantages"] = self._token_weights(output, began)
        else:
            self._batch_log.log_table([{}] * len(inputs))
        return output

    def _generate(self, prompts):
        prompts = readable(prompts)
        if self.tools:
            guard_tools(self)
        self._last_results = {}
        self._tasks = self._told_tasks() if self.environments else None
        output = super()._generate(prompts)
        tasks = self._told_tasks() if self._tasks is None else self._tasks
        prompt_ids, completion_ids, masks, _, logprobs, columns, *images = output
        self._generated = read_generated(self, prompts, output)
        if self._only_plays:
            raise _PlayedError(prompts)
        told = self._generated.given_answers
        columns = columns if told is None else columns | {ROLLOUT_ANSWER: told}
        rewards = columns.pop(FIELD, None)
        if any("answer" in row for row in self._inputs):
            columns.pop("answer", None)  # the data's stays; what was told is in `rollout_answer`
        own = {name: columns[name] for name in columns if name not in (ROLLOUT_ANSWER, "answer")}
        own |= tasks
        self._inputs = [row | _fields_of(n, own) for n, row in enumerate(self._inputs)]
        column = self.args.solution_column
        if self.credit.needs_truth and column not in self._inputs[0]:
            rule = "name a column of train_dataset, or environments have solution after reset"
            raise ValueError(f"solution_column must {rule}, got {column!r}.")
        columns |= {name: tasks[name] for name in tasks if name == column}
        self._take_turn_rewards(rewards)
        for reward in self._accuracy_rewards:
            share_verdicts(reward, self._generated, self._inputs)
        # TRL asks for old log-probabilities under these conditions; what it asks for afterwards is
        # the reference's
        passes = (self.args.steps_per_generation or 1) * self.num_iterations
        is_asked = self.args.gradient_accumulation_steps % passes != 0
        is_asked |= self.use_vllm and self.vllm_importance_sampling_correction
        is_scored = self.args.scores_answers and not self._depends_on_padding
        self._asks_for_old_logps = self.model.training and is_asked and is_scored
        completions = self._generated.completions
        return prompt_ids, completion_ids, masks, completions, logprobs, columns, *images

    def _told_tasks(self) -> dict[str, list[Any]]:
        """Return what the environments say of their tasks, as columns."""
        columns = {"solution": self.args.solution_column}
        if self.args.belief != "model" or self.args.hypotheses_column:
            columns["hypotheses"] = self.args.hypotheses_column or OWN_HYPOTHESES
            columns["prior"] = self.args.prior_column or OWN_PRIOR
        number = self.num_generations if self.model.training else self.num_generations_eval
        environments = self.environments
        return told_tasks(environments, columns, group_size=number, start=self._start)

    def _take_turn_rewards(self, told: Sequence[Any] | None) -> None:
        """Add the rewards of turns to the rollouts, those that a `rollout_func` told or others.

        Their sum is a reward of its own in TRL's log. The outcome reward does not hold it.
        """
        self._generated, unusable = self.scorer.with_turn_rewards(
            self._generated, self._inputs, told, is_first=self.state.global_step == 0
        )
        self._turn_return.rewards = self._generated.turn_rewards
        if self._generated.turn_rewards is None:
            if self.reward_funcs == [self._turn_return] and self.state.global_step == 0:
                raise ValueError(f"{FIELD}, reward_funcs or get_reward must be there, got none.")
            said = f"credit='turns' without {FIELD}: a turn's value is the outcome alone."
            self._say_once(FIELD, said if self.args.credit == "turns" else None)
            return
        if self._turn_return not in self.reward_funcs:
            self.reward_funcs.append(self._turn_return)
            self.reward_func_names.append(self._turn_return.__name__)
            tokenizers: Any = self.reward_processing_classes
            tokenizers.append(None)
            self.reward_weights = torch.cat([self.reward_weights, torch.ones(1)])
        metrics = self._metrics["train" if self.model.training else "eval"]
        metrics["barl/turn_rewards_unusable"].append(sum(gather_object([unusable])))
        said = f"{unusable} of {len(self._inputs)} lists of {FIELD} cannot be used: left out."
        self._say_once("unusable", said if 2 * unusable >= len(self._inputs) else None)

    def _get_tool_suffix_ids(self, tool_messages):
        ended = ended_by(tool_messages)
        if ended is not None:
            self._last_results[ended] = tool_messages
            room = int(self.max_completion_length or 0)
            return [0] * (1 + room)  # without room, TRL generates no more
        messages = readable(tool_messages)
        lacking, surplus = self.cut_behind_call(messages[0]["name"])
        return [*lacking, *super()._get_tool_suffix_ids(messages)[surplus:]]

    def _get_per_token_logps_and_entropies(
        self, model, input_ids, attention_mask, logits_to_keep, *args, **kwargs
    ):
        if self._asks_for_old_logps:  # one pass scores the answers and the completions' own tokens
            self._asks_for_old_logps = False
            self._scored = self._score(score_completions=True)
            logps = self._scored.likelihoods.completion_logps
            return nn.functional.pad(logps, (0, logits_to_keep - logps.shape[1])), None, None
        output = super()._get_per_token_logps_and_entropies(
            model, input_ids, attention_mask, logits_to_keep, *args, **kwargs
        )
        inputs, self._first_inputs = self._first_inputs, None
        if inputs is not None:
            self._log_first_ratio(output[0].detach(), inputs)
        return output

    def _calculate_rewards(self, inputs, prompts, completions, completion_ids_list):
        # that all rewards of a rollout are None is no mistake if no outcome is needed
        trl_logger = logging.getLogger("trl.trainer.grpo_trainer")
        if not self.credit.needs_truth and self.credit.hypotheses != "none":
            trl_logger.addFilter(_is_no_missing_reward)
        try:
            rewards = super()._calculate_rewards(inputs, prompts, completions, completion_ids_list)
        finally:
            trl_logger.removeFilter(_is_no_missing_reward)
        self._rewards_per_func = self._batch_log.check_rewards(rewards)
        self._reasons = self._pending_extra_logs.get("verdict", [])[: len(inputs)] or None
        return self._rewards_per_func

    def _token_weights(self, output: dict[str, Any], began: float) -> Tensor:
        """Return the weights of this process's tokens, (B, L); log and record the rollout batch."""
        scored, rewards = self._scored or self._score(), self._rewards_per_func
        weights = self.reward_weights.to(rewards.device)
        is_cost, is_outcome = self._is_cost.to(rewards.device), ~self._is_return
        of_rollout = (rewards * weights)[:, is_outcome.to(rewards.device)]
        outcomes = of_rollout.nansum(dim=1)
        if is_outcome.any():
            outcomes = outcomes.masked_fill(of_rollout.isnan().all(dim=1), torch.nan)
        of_batch = self._inputs, self._start, self._generated, scored
        batch = RolloutBatch(*of_batch, rewards, outcomes, self._reasons, began)
        rollouts = scored_rollouts(
            self.accelerator,
            scored,
            outcomes,
            group_size=self.num_generations,
            beta=self.args.consistency_beta if self._hears_rewards else 0.0,
            belief=self.args.belief,
            costs=(rewards * weights * is_cost).nansum(dim=1) if is_cost.any() else None,
            outcome_scale=self._outcome_scale,
            needs_truth=self.credit.needs_truth,
            needs_hypotheses=self.credit.hypotheses != "none",
        )
        # tokens that the model wrote, up to the one that ends its last turn
        ends = torch.tensor([[0, *ends][-1] for ends in scored.step_ends])
        mask = (output["completion_mask"] * output.get("tool_mask", 1)).bool()
        mask &= (torch.arange(mask.shape[1]) <= ends[:, None]).to(mask.device)
        reduce: Any = self.accelerator.reduce
        weighed = token_weights(
            rollouts,
            self.credit,
            self.args.settings,
            scored.step_ends,
            mask,
            start=self._start,
            sum_over_processes=partial(reduce, reduction="sum"),
        )
        local_rollouts = rollouts.rows(self._start, self._start + len(self._inputs))
        self._batch_log.log_rollouts(batch, local_rollouts, weighed)
        if scored.turn_rewards is not None:
            mask, own = scored.likelihoods.state_mask[:, 1:], batch.local(outcomes)
            log_turn_rewards(self._metrics["train"], scored.turn_rewards, mask, own)
        if self._recorder is not None:
            self._recorder.record(batch, local_rollouts, weighed, output)
        return weighed.weights

    def _score(self, *, score_completions: bool = False) -> Scored:
        """Form this process's hypotheses and score their answers at every state."""
        started = time.perf_counter()
        with profiling_context(self, "score_hypotheses"), self.accelerator.autocast():
            budget = self._scoring_max_tokens or scoring_token_budget(self.model)
            scored = self.scorer.score(
                self.model,
                self._generated,
                self._inputs,
                start=self._start,
                group_size=self.num_generations,
                score_completions=score_completions,
                completion_temperature=self.temperature,
                max_tokens=budget,
                is_first=self.state.global_step == 0,
            )
        if torch.accelerator.is_available():
            torch.accelerator.synchronize()
        metrics = self._metrics["train"]
        metrics["barl/scoring_seconds"].append(time.perf_counter() - started)
        # where one process ran out of memory, no process tries as many tokens again
        used_and_allowed = gather_object([(scored.likelihoods.max_tokens, budget)])
        halved = [used for used, allowed in used_and_allowed if used < allowed]
        self._scoring_max_tokens = min(halved, default=self._scoring_max_tokens)
        metrics["barl/scoring_max_tokens"].append(min(used_and_allowed)[0])
        return scored

    @property
    def _start(self) -> int:
        """Index of this process's first rollout among those of all processes."""
        return self.accelerator.process_index * len(self._inputs)

    @property
    def _is_cost(self) -> Tensor:
        """Which of the reward functions are costs."""
        return torch.tensor([getattr(one, "is_cost", False) for one in self.reward_funcs])

    @property
    def _is_return(self) -> Tensor:
        """Which of the reward functions is the sum of the rewards of turns, and no outcome."""
        return torch.tensor([one is self._turn_return for one in self.reward_funcs])

    @property
    def _outcome_scale(self) -> float:
        """The outcome reward of a right answer: the weight of the reward that is no cost."""
        weights = self.reward_weights.cpu()[~self._is_cost & ~self._is_return]
        return weights.item() if len(weights) == 1 else 1.0

    def _compute_loss(self, model, inputs):
        is_first = self.model.training and self._step < self.args.gradient_accumulation_steps
        self._first_inputs = inputs if is_first and "old_per_token_logps" in inputs else None
        return super()._compute_loss(model, inputs)

    def _log_first_ratio(self, logps: Tensor, inputs: dict[str, Tensor]) -> None:
        """Log how far the importance ratios of the run's first micro-batches are from 1.

        It is e to the root mean square, over the tokens, of the ratio's logarithm. Both
        log-probabilities of a ratio must come from the same kind of forward pass.
        """
        mask = inputs["completion_mask"] * inputs.get("tool_mask", 1)
        squares = ((logps - inputs["old_per_token_logps"]) * mask).square().sum()
        totals: Any = self.accelerator.reduce(torch.stack([squares, mask.sum()]), "sum")
        ratio = (totals[0] / totals[1].clamp(min=1)).sqrt().exp().item()
        self._metrics["train"][FIRST_RATIO].append(ratio)
        dtype: Any = torch.bfloat16 if self.args.bf16 else causal_lm(self.model).dtype
        if ratio > _MOST_FIRST_RATIO.get(dtype, 1.01):
            self._say_once(
                FIRST_RATIO,
                f"{FIRST_RATIO} must be 1 within rounding, got {ratio:.3g}: the loss sees other "
                "log-probabilities than scoring did. Set dropout to 0; if there is none, let one "
                "optimizer step train on each rollout batch (num_iterations=1 and "
                "steps_per_generation=gradient_accumulation_steps).",
            )

    # evaluation and the Hub

    def play(self, rows: Sequence[dict[str, Any]]) -> list[Episode]:
        """Play an episode with each of some rows of a data set, by TRL's own loop.

        Nothing is rewarded or logged. All processes must call this together where TRL generates on
        all of them together.
        """
        was_training, number = self.model.training, self.num_generations_eval
        metrics = {name: [*values] for name, values in self._metrics["eval"].items()}
        self.model.eval()
        self._only_plays, self.num_generations_eval = True, 1
        prompts = []
        try:
            self._generate_and_score_completions([dict(row) for row in rows])
        except _PlayedError as played:
            [prompts] = played.args
        finally:
            self._only_plays, self.num_generations_eval = False, number
            self._metrics["eval"].clear()
            self._metrics["eval"].update(metrics)
            self.model.train(was_training)
        return episodes_of(prompts, self._generated, self)

    def evaluate(self, eval_dataset=None, ignore_keys=None, metric_key_prefix="eval"):  # noqa: D102
        if not left_in(Path(str(self.args.output_dir))):  # tables of completions will be its own
            self._own_folder = self.args.output_dir
        metrics = super().evaluate(eval_dataset, ignore_keys, metric_key_prefix)
        metrics |= metrics_of_set(self, metrics, metric_key_prefix)
        if eval_dataset is None and self.benchmarks:
            metrics |= evaluate_benchmarks(self, metric_key_prefix)
        return metrics

    def create_model_card(self, model_name=None, dataset_name=None, tags=None):  # noqa: D102
        name = model_name or Path(str(self.args.hub_model_id or self.args.output_dir)).name
        super().create_model_card(name, dataset_name, tags)
        if self.is_world_process_zero():
            complete_card(self)
