"""Checkpoints from which a run resumes exactly, and the output folder of a run.

A checkpoint is saved only between two rollout batches, so that it needs no rollouts. Beside what
transformers and TRL save it has the moving reference of `sync_ref_model` and, written last,
`complete.json`: the sizes of its files, and the settings of the run.
"""

import hashlib
import json
import logging
import math
import os
import re
import shutil
import textwrap
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from zlib import crc32

import torch
from accelerate import PartialState
from accelerate.utils import gather_object
from datasets import Dataset
from filelock import FileLock, Timeout
from torch.distributed.tensor import DTensor
from transformers import TrainerCallback
from trl import GRPOTrainer

from .hub import Pushes
from .records import FOLDER
from .redaction import redacted
from .turn_rewards import TurnReturn

logger = logging.getLogger(__name__)
logger.addFilter(lambda _: PartialState().is_main_process)

_END = "complete.json"
_RESULTS = ("model.safetensors", "model-*-of-*.safetensors", "pytorch_model*.bin")
_RESULTS += ("adapter_model.safetensors", "trainer_state.json", "training_args.bin")
_RECORDS = ("beliefs/rollouts_*.parquet", "completions/completions_*.parquet")
_FREE = re.compile(
    r"(logg?ing|log|report|trackio|eval|save|hub|push|do|ddp|dataloader|include|vllm_server)_.*"
    r"|(overwrite_)?output_dir|resume_from_checkpoint|allow_inexact_resume|run_name|project|debug"
    r"|prompts_per_rollout_batch|rollouts_per_optimizer_step|num_completions_to_print|deepspeed"
    r"|.*_eval(_.*)?|load_best_.*|.*_best_model|disable_tqdm|local_rank|scoring_max_tokens"
    r"|adapter's (base_model_name_or_path|revision|inference_mode|auto_mapping|peft_version)"
)
"""Settings that do not change the trained weights, or only set others, which are compared."""
_EXACT = {
    *("data set", "seed", "data_seed", "shuffle_dataset", "num_generations", "num_iterations"),
    *("per_device_train_batch_size", "gradient_accumulation_steps", "generation_batch_size"),
    *("steps_per_generation", "processes", "optim", "adapter"),
}
"""Settings without which the prompts would have another order, or saved states would not fit."""
_OF_OPTIMIZER = {"learning_rate", "weight_decay", "adam_beta1", "adam_beta2", "adam_epsilon"}


@contextmanager
def one_writer(folder: Path) -> Iterator[None]:
    """Make a folder, and keep other processes from writing into it inside this context.

    Raises:
        ValueError: Another process writes into it. A process that was killed holds nothing.
    """
    folder.mkdir(parents=True, exist_ok=True)
    try:
        held = FileLock(folder / "_lock", timeout=0).acquire()  # names with `_` are not pushed
    except Timeout:
        text = f"output_dir must have one writer, got {folder}, into which another process writes."
        raise ValueError(text) from None
    with held:
        yield


def _checkpoints(folder: Path) -> list[Path]:
    """Return the checkpoints in a folder in the order of steps; times of files may be wrong."""
    found = [one for one in folder.glob("checkpoint-*") if one.name[11:].isdecimal()]
    return sorted(found, key=lambda one: int(one.name[11:]))


def left_in(folder: Path, *, is_unfinished: bool = False) -> list[Path]:
    """Return what an earlier run left in a folder; if it `is_unfinished`, what it wrote last."""
    patterns = _RESULTS if is_unfinished else (*_RESULTS, *_RECORDS)
    files = [path for pattern in patterns for path in sorted(folder.glob(pattern))]
    return files if is_unfinished else _checkpoints(folder) + files


def clear(folder: Path) -> None:
    """Delete what an earlier run left in a folder; other files, and what links lead to, stay."""
    for path in left_in(folder):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        elif _is_in(folder, path.parent):
            path.unlink()


def _is_in(folder: Path, path: str | Path | None) -> bool:
    return path is not None and Path(path).resolve().is_relative_to(folder.resolve())


def find_checkpoint(args: Any, resume: str | bool | None, *, is_own: bool = False) -> str | None:
    """Find the checkpoint that `resume` means, and refuse a used output folder, unless it `is_own`.

    `resume` is a path; `true`, the last complete checkpoint in `output_dir`; `auto`, that
    checkpoint if there is one; or `false`. Recipes and the shell give these as texts.

    Raises:
        ValueError: There is no such checkpoint, or it is incomplete; an earlier run has left
            something in `output_dir`, which is neither resumed nor overwritten; or a file lies
            there where the run needs a folder.
    """
    folder, choice = Path(args.output_dir), str(resume or False).lower()
    for path in (folder, folder / FOLDER, folder / "completions"):
        if path.exists() and not path.is_dir():
            raise ValueError(f"output_dir must have a folder {path}, got a file: move it away.")
    checkpoint, faults, places = None, [], _checkpoints(folder)
    if choice in ("true", "auto"):
        checkpoint, faults = last_checkpoint(folder, args.max_steps)
    elif choice != "false":
        places = [Path(str(resume))]
        fault = _fault(places[0], args.max_steps)
        checkpoint, faults = (None, [f"{resume}: {fault}"]) if fault else (str(resume), [])
    if checkpoint is None and faults and args.allow_inexact_resume:
        # a run has a state in its folder, too, from which transformers would go on
        is_one = places[-1].name.startswith("checkpoint-") or any(places[-1].glob("rng_state*"))
        checkpoint = str(places[-1]) if is_one else None
    if checkpoint is None and choice not in ("auto", "false"):
        text = f"be a complete checkpoint, got {'; '.join(faults) or 'none'}: take another, or set"
        raise ValueError(f"resume_from_checkpoint must {text} allow_inexact_resume.")
    if faults:
        logger.warning(f"not complete: {'; '.join(faults)}. Resuming from {checkpoint}.")
    left = left_in(folder, is_unfinished=choice == "auto")
    if left and not (is_own or args.overwrite_output_dir or _is_in(folder, checkpoint)):
        raise ValueError(
            f"output_dir must be new, got {folder} with {', '.join(p.name for p in left[:3])} of "
            'an earlier run: go on with resume_from_checkpoint="auto", name another folder, or '
            "delete what the run wrote with overwrite_output_dir=True."
        )
    return checkpoint


def last_checkpoint(folder: str | Path, max_steps: int = -1) -> tuple[str | None, list[str]]:
    """Return the last checkpoint in a folder with no fault, and the faults of later ones."""
    faults = []
    for checkpoint in reversed(_checkpoints(Path(folder))):
        if (fault := _fault(checkpoint, max_steps)) is None:
            return str(checkpoint), faults
        faults.append(f"{checkpoint}: {fault}")
    return None, faults


def _fault(checkpoint: Path, max_steps: int) -> str | None:
    """Return why a run of `max_steps` cannot resume exactly from a checkpoint; None if it can."""
    try:
        end = json.loads((checkpoint / _END).read_text(encoding="utf-8"))
        for name, size in end["sizes"].items():
            if (checkpoint / name).stat().st_size != size:
                return f"a part of {name} is missing"
        is_over = 0 < max_steps <= end["step"]
        return None if end["is_exact"] or is_over else "it lies in a rollout batch, or has no state"
    except OSError as error:
        return f"{Path(str(error.filename)).name} is missing"
    except (ValueError, LookupError, TypeError):
        return f"{_END} is damaged, or of another version"


def _run_settings(trainer: Any) -> dict[str, Any]:
    """Return the settings that change the trained weights, as JSON values, without secrets."""
    model, rows = trainer.accelerator.unwrap_model(trainer.model), trainer.train_dataset
    adapter = getattr(model, "peft_config", {}).get("default")
    of_adapter = adapter.to_dict() if adapter else {}
    named = zip(trainer.reward_func_names, trainer.reward_funcs, strict=True)
    others = {
        **{f"adapter's {n}": sorted(v) if isinstance(v, set) else v for n, v in of_adapter.items()},
        "model": model.config._name_or_path,
        "adapter": adapter and f"{adapter.peft_type} of rank {getattr(adapter, 'r', None)}",
        # the sum of turn rewards, which no setting asks for, joins them with the first batch
        "rewards": [name for name, reward in named if not isinstance(reward, TurnReturn)],
        "processes": trainer.args.world_size,
    }
    if isinstance(rows, Dataset):  # the rows of a stream are not known
        sample = rows.select(range(0, len(rows), max(1, len(rows) // 64))).to_list()
        checksum = hashlib.sha256(json.dumps(sample, default=str).encode())
        others["data set"] = f"{len(rows)} rows ({checksum.hexdigest()[:8]})"
    shapes = {n: [*getattr(p, "ds_shape", p.shape)] for n, p in model.named_parameters()}
    count, checksum = sum(map(math.prod, shapes.values())), crc32(json.dumps(shapes).encode())
    others["weights"] = f"{count:,} in {len(shapes)} tensors ({checksum:08x})"
    settings = trainer.args.to_dict() | others
    settings = {name: value for name, value in settings.items() if not _FREE.fullmatch(name)}
    return redacted(json.loads(json.dumps(settings, default=str)))


def _refuse_other_settings(trainer: Any, checkpoint: str) -> None:
    """Name the settings that differ from a checkpoint's; refuse those that make it inexact."""
    saved = json.loads(Path(checkpoint, _END).read_text(encoding="utf-8")).get("settings", {})
    changed = {
        name: " -> ".join(textwrap.shorten(str(one), 80) for one in (saved[name], value))
        for name, value in _run_settings(trainer).items()
        if name in saved and saved[name] != value
    }
    texts = ", ".join(f"{name} {text}" for name, text in changed.items())
    if "weights" in changed:
        raise ValueError(f"the model must be that of {checkpoint}, got other weights: {texts}.")
    if changed.keys() & _EXACT and not trainer.args.allow_inexact_resume:
        rule = f"settings must be those of {checkpoint} to resume from it exactly"
        raise ValueError(f"{rule}, got {texts}: take those, or set allow_inexact_resume.")
    if changed:
        kept = "; those of the optimizer stay" * bool(changed.keys() & _OF_OPTIMIZER)
        logger.warning(f"{checkpoint} was trained with other settings: {texts}{kept}.")


def _reference(trainer: Any, checkpoint: str | Path) -> tuple[Path, list[torch.Tensor]]:
    """Return this process's part of each parameter of the moving reference, and their file."""
    whole: list[Any] = [*trainer.ref_model.parameters()]
    parts = [getattr(p, "ds_tensor", p.to_local() if isinstance(p, DTensor) else p) for p in whole]
    is_sharded = any(part is not p for part, p in zip(parts, whole, strict=True))
    name = f"reference_{trainer.args.process_index * is_sharded}.pt"
    return Path(checkpoint, name), [part.data for part in parts]


class SavesAndStops(TrainerCallback):
    """Save between two rollout batches; end all processes together; set up what is resumed.

    What would be saved within a rollout batch is put off to its last optimizer step, and so is an
    evaluation that chooses the best model. Where training ends within a rollout batch, the last
    checkpoint lies there: only a run with no more steps resumes from it.

    Training ends once any process is asked to, or has lost what launched it. With `is_saved`, equal
    on all processes, it ends between two rollout batches with a checkpoint: transformers'
    `enable_jit_checkpoint` saves within one.
    """

    def __init__(self, trainer: "ResumeMixin"):
        self._trainer, self.is_saved, self.has_stopped = trainer, False, False
        is_launched = {"TORCHELASTIC_RUN_ID", "BARL_LAUNCHED"} & {*os.environ}
        self._launcher = os.getppid() if is_launched else None

    def ask(self) -> None:
        """Ask, on this process, that training ends."""
        self._trainer.accelerator.set_trigger()

    def on_train_begin(self, args, state, control, **kwargs):  # noqa: D102 (transformers')
        trainer, self._put_off, self.has_stopped = self._trainer, set(), False
        # an earlier `train` that was interrupted left something
        trainer._step, trainer._current_train_step_time, trainer._buffered_inputs = 0, 0.0, None
        trainer._metrics["train"].clear()
        for _ in range(int(state.epoch or 0) if isinstance(trainer.train_dataset, Dataset) else 0):
            next(iter(kwargs["train_dataloader"].batch_sampler))  # draws the order of an epoch
        if trainer.checkpoint and trainer.args.sync_ref_model:
            file, parts = _reference(trainer, trainer.checkpoint)
            if not file.exists():
                logger.warning(f"{file} is missing: the reference starts anew.")
                return
            for part, value in zip(parts, torch.load(file, "cpu", weights_only=True), strict=True):
                part.copy_(value)

    def on_step_end(self, args, state, control, **kwargs):  # noqa: D102 (transformers')
        if self._launcher not in (None, os.getppid()):  # it would train on, unseen
            self.ask()
        is_watched = self._trainer.is_between_batches if self.is_saved else self._launcher
        if is_watched and self._trainer.accelerator.check_trigger():
            self.has_stopped = control.should_training_stop = True
            control.should_save |= self.is_saved
        self.on_epoch_end(args, state, control)

    def on_epoch_end(self, args, state, control, **kwargs):  # noqa: D102 (transformers')
        is_over = control.should_training_stop and not self.has_stopped
        is_due = self._trainer.is_between_batches or is_over
        is_best_kept = args.load_best_model_at_end or args.save_strategy == "best"
        for name in ["should_save"] + ["should_evaluate"] * is_best_kept:
            if getattr(control, name):
                self._put_off.add(name)
            setattr(control, name, is_due and name in self._put_off)
        if is_due:
            self._put_off.clear()


class ResumeMixin(GRPOTrainer):
    """Let a run that was killed and resumed reach the parameters of an undisturbed one, to the bit.

    Metrics that wait to be logged are not saved: the first log behind a checkpoint averages what
    came since. vLLM need not sample the same rollouts again.

    What it relies on in TRL: `_step` counts micro-batches, and `_buffered_inputs` holds rollouts;
    a sampler draws the order of an epoch when it is iterated over, from a generator of its own;
    `_save_checkpoint` writes into `checkpoint-<step>`.
    """

    args: Any
    model: Any
    ref_model: Any
    checkpoint: str | None = None
    _own_folder: str | None = None

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__(*args, **kwargs)
        self.saves_and_stops = SavesAndStops(self)
        self.add_callback(self.saves_and_stops)
        self.add_callback(Pushes(self))

    @property
    def is_between_batches(self) -> bool:
        """Whether nothing is left to be trained on in the current rollouts."""
        return self._step % (self.args.steps_per_generation * self.num_iterations) == 0

    @property
    def saved_in(self) -> str:
        """The folder of the model: that of the run, or of a checkpoint where that has none."""
        folder = str(self.args.output_dir)
        checkpoint = Path(folder, f"checkpoint-{self.state.global_step}")
        is_there = checkpoint.is_dir() or self.control.should_save  # it is about to be
        is_alone = folder == self._own_folder and not any(Path(folder).glob("*model*.safetensors"))
        return str(checkpoint) if is_there and is_alone else folder

    def train(self, resume_from_checkpoint: str | bool | None = None, **kwargs):  # noqa: D102
        if not any(one.requires_grad for one in self.model.parameters()):
            raise ValueError("model must have weights to train: adapters take is_trainable=True.")
        with ExitStack() as held:
            self.checkpoint = self._claim(held, resume_from_checkpoint)
            self._own_folder = self.args.output_dir
            # transformers would order checkpoints by time, and at the end delete the last one
            self.args.shown = {"save_total_limit": self.args.save_total_limit}
            self.args.save_total_limit = None
            try:
                output = super().train(self.checkpoint, **kwargs)
            finally:
                self.args.save_total_limit = self.args.shown.pop("save_total_limit")
        if self.saves_and_stops.has_stopped and not self.saves_and_stops.is_saved:
            raise SystemExit("training ended: what launched this process has ended.")
        if self.saved_in != self.args.output_dir:
            self.accelerator.print(f"The trained model is in {self.saved_in}.")
        return output

    def _claim(self, held: ExitStack, resume: str | bool | None) -> str | None:
        """Hold the output folder, and find the checkpoint, or raise on all processes together."""
        args, folder, checkpoint, fault = self.args, Path(self.args.output_dir), None, None
        is_cleared = args.overwrite_output_dir and self._own_folder != args.output_dir
        try:
            checkpoint = find_checkpoint(args, resume, is_own=self._own_folder == args.output_dir)
            if checkpoint is not None and Path(checkpoint, _END).exists():  # else TRL's, allowed
                _refuse_other_settings(self, checkpoint)
            if args.should_save:
                held.enter_context(one_writer(folder))
            is_cleared = is_cleared and args.should_save and not _is_in(folder, checkpoint)
            model = self.model.config._name_or_path
            if is_cleared and os.path.isdir(model) and _is_in(folder, model):
                raise ValueError("overwrite_output_dir would delete the model that is trained.")
        except (OSError, ValueError) as error:
            fault = str(error)
        for text in filter(None, gather_object([fault])):
            raise ValueError(text)
        if is_cleared:
            clear(folder)
        return checkpoint

    def _run_epoch(self, *args, **kwargs):
        # transformers takes a step before it asks whether the run is at its end
        if self.state.global_step >= self.state.max_steps:
            self.control.should_training_stop = True
        else:
            super()._run_epoch(*args, **kwargs)

    def _save_checkpoint(self, model, trial):
        args, step = self.args, self.state.global_step
        limit = args.shown.get("save_total_limit") or 0
        folder = Path(self._get_output_dir(trial), f"checkpoint-{step}")
        if args.should_save:
            (folder / _END).unlink(missing_ok=True)  # an earlier run's
        super()._save_checkpoint(model, trial)
        if args.sync_ref_model:
            file, parts = _reference(self, folder)
            if args.should_save or file.name != "reference_0.pt":
                torch.save([part.cpu() for part in parts], file)
        self.accelerator.wait_for_everyone()
        if not args.should_save:
            return
        files = [p for p in folder.rglob("*") if p.is_file() and not p.name.startswith(_END)]
        end = {
            "step": step,
            "is_exact": self.is_between_batches and not args.save_only_model,
            "settings": _run_settings(self),
            "sizes": {str(path.relative_to(folder)): path.stat().st_size for path in files},
        }
        partial = folder / f"{_END}.partial"
        partial.write_text(json.dumps(end, indent=1), encoding="utf-8")
        partial.replace(folder / _END)
        if limit > 0 and self.is_between_batches:
            kept = {folder.name, Path(self.state.best_model_checkpoint or folder).name}
            others = [one for one in _checkpoints(folder.parent) if one.name not in kept]
            # later checkpoints are another run's
            earlier = [one for one in others if int(one.name[11:]) < step]
            for checkpoint in earlier[::-1][max(limit - len(kept), 0) :]:
                shutil.rmtree(checkpoint, ignore_errors=True)
