"""`RolloutRecorder` writes every rollout batch of training to a file for `barl inspect`."""

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
from accelerate.utils import gather_object
from transformers import TrainerCallback

from ...credit.rollouts import ScoredRollouts
from ...credit.token_weights import TokenWeights
from ...report.rollout_records import FOLDER, file_name, forget_from, write_records
from ...report.token_texts import TokenTexts
from ..rollouts.rollout_batch import RolloutBatch
from .rollout_table import prompt_columns, rollout_table


class RolloutRecorder(TrainerCallback):
    """Write each rollout batch of training to `<output_dir>/beliefs`.

    A file is written completely or not at all. Its name says how many optimizer steps were done. A
    run that starts, or resumes from a checkpoint, deletes the files of the steps that it is about
    to do again. Each process makes the columns of its own rollouts, and the main process joins
    them.

    It logs `barl/recording_seconds`.

    Args:
        trainer: A [`BARLTrainer`] with `log_beliefs` set.
    """

    def __init__(self, trainer: Any):
        self._trainer = trainer
        self._texts = TokenTexts(trainer._tokenizer)
        self._folder = Path(str(trainer.args.output_dir), FOLDER)
        self._step, self._parts = -1, 0
        self._began_before: float | None = None

    def on_train_begin(self, args, state, control, **kwargs):  # noqa: D102 (transformers')
        self._step, self._parts, self._began_before = -1, 0, None
        if self._trainer.accelerator.is_main_process:
            forget_from(self._folder, state.global_step)

    def record(
        self,
        batch: RolloutBatch,
        local_rollouts: ScoredRollouts,
        weighed: TokenWeights,
        output: Mapping[str, Any],
    ) -> None:
        """Write the rollout batch of all processes.

        Args:
            batch: This process's rollouts, scored and rewarded.
            local_rollouts: The scored rollouts of this process.
            weighed: The step values and token weights of this process's rollouts.
            output: What TRL's `_generate_and_score_completions` returned. It has `advantages` of
                shape (B,) and may have `old_per_token_logps` of shape (B, L) and
                `importance_sampling_ratio` of shape (B, L) or (B, 1).
        """
        started, accelerator = time.perf_counter(), self._trainer.accelerator
        step = self._trainer.state.global_step
        self._parts = 0 if step != self._step else self._parts + 1
        self._step = step
        table = self._local_records(batch, local_rollouts, weighed, output)
        tables = [table]
        if accelerator.num_processes > 1:
            tables = [*map(_read, gather_object([_written(table)]))]
        if accelerator.is_main_process:
            path = self._folder / file_name(step, self._parts)
            write_records(path, tables, self._metadata(batch, started))
        self._began_before = batch.began
        seconds = time.perf_counter() - started
        self._trainer._metrics["train"]["barl/recording_seconds"].append(seconds)

    def _local_records(
        self,
        batch: RolloutBatch,
        local_rollouts: ScoredRollouts,
        weighed: TokenWeights,
        output: Mapping[str, Any],
    ) -> pa.Table:
        trainer = self._trainer
        number = len(batch.inputs)
        first = batch.start + self._parts * number * trainer.accelerator.num_processes
        places = range(first, first + number)
        solutions = [row.get(trainer.args.solution_column) for row in batch.inputs]
        prompts = [row["prompt"] for row in batch.inputs]
        outcomes = batch.local(batch.outcome_rewards(trainer.reward_weights))
        return rollout_table(
            self._texts,
            batch.generated,
            batch.scored,
            local_rollouts,
            values=weighed.values,
            start=batch.start,
            outcome_scale=trainer._outcome_scale,
            of_tokens={
                "token_logps": output.get("old_per_token_logps"),
                "importance_ratios": output.get("importance_sampling_ratio"),
                "token_weights": weighed.weights,
            },
            step=[self._step] * number,
            group=[place // trainer.num_generations for place in places],
            rollout=[*places],
            **prompt_columns(prompts, batch.generated.prompt_ids, trainer._tokenizer),
            solution=[None if solution is None else str(solution) for solution in solutions],
            rewards=batch.local(batch.rewards_per_func).tolist(),
            outcome=[None if number != number else number for number in outcomes.tolist()],  # NaN
            advantage=output["advantages"].tolist(),
            reason=batch.reasons,
            is_cut_off=local_rollouts.is_cut_off.tolist(),
        )

    def _metadata(self, batch: RolloutBatch, now: float) -> dict[str, Any]:
        trainer, before = self._trainer, self._began_before
        return {
            "source": "training",
            "model": trainer.model.config._name_or_path,
            "reward_names": trainer.reward_func_names,
            "reward_weights": trainer.reward_weights.tolist(),
            "outcome_scale": trainer._outcome_scale,
            "num_generations": trainer.num_generations,
            "temperature": trainer.temperature,
            "max_completion_length": trainer.args.max_completion_length,
            "settings": trainer.args.settings,
            "seconds": {
                "rollouts": now - batch.began,
                "scoring": trainer._metrics["train"]["barl/scoring_seconds"][-1],
                "since_batch_before": None if before is None else batch.began - before,
            },
        }


def _written(table: pa.Table) -> bytes:
    """Return a table as compressed bytes, which one process can send to another."""
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with pa.ipc.new_stream(sink, table.schema, options=options) as stream:
        stream.write_table(table)
    return sink.getvalue().to_pybytes()


def _read(content: bytes) -> pa.Table:
    return pa.ipc.open_stream(content).read_all()
