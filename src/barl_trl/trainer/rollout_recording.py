"""Every rollout batch of training, written to a file for `barl inspect`."""

import time
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa
from accelerate.utils import gather_object
from torch import Tensor
from transformers import TrainerCallback
from trl import GRPOTrainer

from ..credit.rollouts import ScoredRollouts
from ..report.rollout_records import (
    FOLDER,
    credit_metadata,
    file_name,
    forget_from,
    write_records,
)
from ..report.token_texts import TokenTexts
from .barl_config import BARLConfig
from .hypothesis_scorer import HypothesisScorer, Scored
from .rollout_batch import RolloutBatch
from .rollout_table import optional, prompt_columns, rollout_table, token_column

REASONS = "verdict"
"""Column of TRL's completions table in which graders say what they decided by."""


class RolloutRecordingMixin(GRPOTrainer):
    """Write each rollout batch of training to `<output_dir>/beliefs`, with `log_beliefs`.

    A file is whole or not there. Its name says how many optimizer steps were done. A run that
    begins, or goes on from a checkpoint, deletes the files of what it is about to do anew. Each
    process makes the columns of its own rollouts, and the main process joins them.

    Logs `barl/recording_seconds`.

    What it relies on in TRL: rewards log through `_log_completion_extra(column, values)`;
    `_generate_and_score_completions(inputs)` returns `advantages` of shape (B,) and, where it has
    them, `old_per_token_logps` and `importance_sampling_ratio`; `reward_func_names`,
    `reward_weights`.
    """

    args: BARLConfig
    model: Any
    num_generations: int
    _batch: RolloutBatch
    _tokenizer: Any
    scorer: HypothesisScorer

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self._recorded_step, self._recorded_parts = -1, 0
        self._began_before: float | None = None
        self._trls_output: dict[str, Any] = {}
        if self.args.log_beliefs:
            self.add_callback(_AtTrainBegin(self._forget_undone))

    @cached_property
    def _token_texts(self) -> TokenTexts:
        return TokenTexts(self._tokenizer)

    @property
    def _record_folder(self) -> Path:
        return Path(str(self.args.output_dir), FOLDER)

    def _forget_undone(self, step: int) -> None:
        """Delete the records of steps that are to be done, perhaps again."""
        self._recorded_step, self._recorded_parts, self._began_before = -1, 0, None
        if self.accelerator.is_main_process:
            forget_from(self._record_folder, step)

    def _log_completion_extra(self, column, values):
        if column == REASONS and self._batch.reasons is None:
            self._batch.reasons = [*map(str, values)]
        super()._log_completion_extra(column, values)

    def _generate_and_score_completions(self, inputs):
        output = super()._generate_and_score_completions(inputs)
        if self.args.log_beliefs and self.model.training:
            self._trls_output = output
        return output

    def _record_rollouts(
        self, scored: Scored, own: ScoredRollouts, values: Tensor, weights: Tensor
    ) -> None:
        """Write the rollout batch of all processes, if that is wanted.

        Args:
            scored: What this process scored.
            own: This process's rollouts.
            values: Values of their steps before whitening, (B, T).
            weights: Weights of their tokens, (B, L).
        """
        if not self.args.log_beliefs:
            return
        started, step = time.perf_counter(), self.state.global_step
        is_new = step != self._recorded_step
        self._recorded_parts = 0 if is_new else self._recorded_parts + 1
        self._recorded_step = step
        table = self._own_records(scored, own, values, weights)
        self._trls_output = {}  # it holds the tensors of the batch
        tables = [table]
        if self.accelerator.num_processes > 1:
            tables = [*map(_read, gather_object([_written(table)]))]
        if self.accelerator.is_main_process:
            path = self._record_folder / file_name(step, self._recorded_parts)
            write_records(path, pa.concat_tables(tables), self._record_metadata(started))
        self._began_before = self._batch.began
        seconds = time.perf_counter() - started
        self._metrics["train"]["barl/recording_seconds"].append(seconds)

    def _own_records(
        self, scored: Scored, own: ScoredRollouts, values: Tensor, weights: Tensor
    ) -> pa.Table:
        batch, output = self._batch, self._trls_output
        generated, number = batch.generated, len(batch.inputs)
        before = self._recorded_parts * number * self.accelerator.num_processes
        places = range(before + batch.start, before + batch.start + number)
        solutions = [row[self.args.solution_column] for row in batch.inputs]
        prompts = [row["prompt"] for row in batch.inputs]
        return rollout_table(
            self._token_texts,
            generated,
            scored,
            own,
            values=values,
            start=batch.start,
            step=[self._recorded_step] * number,
            group=[place // self.num_generations for place in places],
            rollout=[*places],
            **prompt_columns(prompts, generated.prompt_ids, self._tokenizer),
            solution=[None if solution is None else str(solution) for solution in solutions],
            token_logps=token_column(output.get("old_per_token_logps"), generated.completion_ids),
            importance_ratios=token_column(
                output.get("importance_sampling_ratio"), generated.completion_ids
            ),
            token_weights=token_column(weights, generated.completion_ids),
            rewards=batch.local(batch.rewards_per_func).tolist(),
            outcome=optional(batch.local(batch.outcome_rewards(self.reward_weights))),
            advantage=output["advantages"].tolist(),
            reason=batch.reasons,
            is_cut_off=own.is_cut_off.tolist(),
        )

    def _record_metadata(self, now: float) -> dict[str, Any]:
        began, before = self._batch.began, self._began_before
        return {
            "source": "training",
            "model": self.model.config._name_or_path,
            "reward_names": self.reward_func_names,
            "reward_weights": self.reward_weights.tolist(),
            "num_generations": self.num_generations,
            "temperature": self.temperature,
            "max_completion_length": self.args.max_completion_length,
            **credit_metadata(self.args.settings),
            "seconds": {
                "rollouts": now - began,
                "scoring": self._metrics["train"]["barl/scoring_seconds"][-1],
                "since_batch_before": None if before is None else began - before,
            },
        }


class _AtTrainBegin(TrainerCallback):
    """Say when training begins, after how many steps: none, or those of a checkpoint."""

    def __init__(self, call: Callable[[int], None]):
        self._call = call

    def on_train_begin(self, args, state, control, **kwargs):
        self._call(state.global_step)


def _written(table: pa.Table) -> bytes:
    """Return a table as bytes, to be sent."""
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with pa.ipc.new_stream(sink, table.schema, options=options) as stream:
        stream.write_table(table)
    return sink.getvalue().to_pybytes()


def _read(content: bytes) -> pa.Table:
    return pa.ipc.open_stream(content).read_all()
