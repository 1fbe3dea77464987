"""The files of a checkpoint, and the check that it is complete.

`exact_resume.py` writes checkpoints and resumes from them; `barl train` looks for the checkpoint to
resume from.
"""

from pathlib import Path
from typing import Any

from accelerate.logging import get_logger
from transformers.trainer import OPTIMIZER_NAME, SCHEDULER_NAME, TRAINER_STATE_NAME
from transformers.trainer_utils import sort_checkpoints
from transformers.utils import CONFIG_NAME
from trl import GRPOConfig, GRPOTrainer

from ...report.json_files import read_json, write_json
from .output_folder import incomplete, left_in, none_complete

logger = get_logger(__name__)

SETTINGS = "settings.json"
"""Name of the file with the settings that a checkpoint was trained with."""

_END_MARKER = "complete.json"
"""Name of the file that is written last. It has the size in bytes of each file that is no text."""

_WEIGHTS = ("*.safetensors", "*/*.safetensors", "pytorch_model*", "adapter_model*", "global_step*")
_TEXTS = (".json", ".jinja", ".md", ".txt")  # a user may edit these, which changes their sizes
_KEYS = {
    TRAINER_STATE_NAME: {"global_step": int, "epoch": float},
    _END_MARKER: {"sizes": dict},
    SETTINGS: {"method": str},
    CONFIG_NAME: {"model_type": str},
}
"""Name of a JSON file -> types of the values that it must have, if the checkpoint has the file."""

_REPLACEABLE = (OPTIMIZER_NAME, SCHEDULER_NAME)
"""Names of files without which a run resumes, with a new optimizer and a warning."""


def reopen(checkpoint: Path) -> None:
    """Make a checkpoint count as incomplete while its files are written again."""
    for name in (_END_MARKER, TRAINER_STATE_NAME):
        (checkpoint / name).unlink(missing_ok=True)


def write_end_marker(checkpoint: Path) -> None:
    """Write the sizes of a checkpoint's files, which marks it as complete."""
    paths = [path for path in sorted(checkpoint.rglob("*")) if path.is_file()]
    sizes = {
        str(path.relative_to(checkpoint)): path.stat().st_size
        for path in paths
        if path.suffix not in _TEXTS
    }
    write_json(checkpoint / _END_MARKER, {"sizes": sizes})


def rollouts_name(rank: int | str, world_size: int | str) -> str:
    """Return the name of the file that holds the rollouts of the process `rank`, or a pattern."""
    return f"rollouts_{rank}_of_{world_size}.pt"


def checkpoint_to_resume(value: str | bool | None, args: GRPOConfig) -> str | None:
    """Find the checkpoint that `resume_from_checkpoint` means.

    A warning names the checkpoints that are passed over, and why.

    Args:
        value: A path; `true`, the last complete checkpoint in `output_dir`; `auto`, that checkpoint
            if there is one; or `false`. Recipes and the command line give these as texts.
        args: The settings of the run.

    Returns:
        The folder of the checkpoint; None to start anew.

    Raises:
        ValueError: The checkpoint is incomplete, there is none, or another number of processes
            saved it.
    """
    choice = str(value or False).lower()
    if choice == "false":
        return None
    if choice not in ("true", "auto"):
        if fault := _find_fault(str(value), args):
            raise incomplete(str(value), fault)
        return str(value)
    checkpoint, faults = _last_complete(args)
    if choice == "true" and checkpoint is None:
        raise none_complete(str(args.output_dir), faults)
    if faults:
        way_on = f"resuming from {checkpoint}" if checkpoint else "starting anew"
        logger.warning(f"incomplete: {'; '.join(faults)}; {way_on}")
    return checkpoint


def _last_complete(args: GRPOConfig, *, until: int | None = None) -> tuple[str | None, list[str]]:
    """Return the newest complete checkpoint of a run, and the faults of newer checkpoints.

    Args:
        args: The settings of the run.
        until: The last optimizer step whose checkpoint counts; None: all checkpoints count.

    Returns:
        The folder of the checkpoint, None without one; and a line for each newer checkpoint.

    Raises:
        ValueError: Another number of processes saved a checkpoint.
    """
    output_dir, faults = str(args.output_dir), []
    for checkpoint in reversed(sort_checkpoints(output_dir) if Path(output_dir).is_dir() else []):
        if until is not None and int(checkpoint.rpartition("-")[2]) > until:
            continue
        if (fault := _find_fault(checkpoint, args)) is None:
            return checkpoint, faults
        faults.append(f"{checkpoint}: {fault}")
    return None, faults


def what_is_kept(trainer: GRPOTrainer, resumed: str | bool | None) -> tuple[str, str]:
    """Return what a training that ends early leaves, and how to go on.

    Args:
        trainer: The trainer.
        resumed: The checkpoint that the training resumed from, if it did.

    Returns:
        A sentence that names the last checkpoint, and the value of `--resume_from_checkpoint` with
        which the same command goes on; both empty if it only needs to start again.
    """
    args: Any = trainer.args
    checkpoint, _ = _last_complete(args, until=trainer.state.global_step)
    if checkpoint:
        return f"The last checkpoint is {checkpoint}.", checkpoint
    is_refused = not resumed and left_in(Path(args.output_dir))
    return "", "auto" if is_refused else ""


def _find_fault(checkpoint: str, args: GRPOConfig) -> str | None:
    """Return why a run cannot resume from a checkpoint; None if it can.

    Args:
        checkpoint: The folder of the checkpoint.
        args: The settings of the run.

    Raises:
        ValueError: Another number of processes saved the checkpoint.
    """
    folder = Path(checkpoint)
    if not folder.is_dir():
        return "there is no such folder"
    marker, has_rollouts = folder / _END_MARKER, any(folder.glob(rollouts_name("*", "*")))
    for path in [folder / TRAINER_STATE_NAME] + [marker] * has_rollouts:
        if not path.exists():
            return f"{path.name} is missing"
    try:  # a damaged file of texts may have its size
        files = {p.name: read_json(p, **_KEYS.get(p.name, {})) for p in folder.glob("*.json")}
    except ValueError as error:
        return str(error).removesuffix(".")
    if not marker.exists():
        return _fault_of_trls(folder, files[TRAINER_STATE_NAME]["global_step"], args)
    for name, size in files[_END_MARKER]["sizes"].items():
        path = folder / name
        if name not in _REPLACEABLE and not path.exists():
            return f"{name} is missing"
        if path.exists() and path.stat().st_size != size:
            return f"a part of {name} is missing"
    return _fault_of_rollouts(folder, args)


def _fault_of_trls(folder: Path, step: int, args: GRPOConfig) -> str | None:
    """Return why a run cannot resume from a checkpoint of TRL's trainer, after so many steps."""
    if not any(any(folder.glob(name)) for name in _WEIGHTS):
        return "model.safetensors is missing"
    if step * args.gradient_accumulation_steps % rollout_batch_steps(args):
        return (
            f"rollouts are missing, which only BARLTrainer saves, and step {step} lies in the "
            "middle of a rollout batch"
        )
    return None


def _fault_of_rollouts(folder: Path, args: GRPOConfig) -> str | None:
    """Return which process's rollouts a checkpoint lacks; None if all are there.

    Raises:
        ValueError: Another number of processes saved the checkpoint.
    """
    saved = {path.name for path in folder.glob(rollouts_name("*", "*"))}
    ranks = [args.process_index] if args.save_on_each_node else range(args.world_size)
    expected = [rollouts_name(rank, args.world_size) for rank in ranks]
    if saved and saved.isdisjoint(expected):
        number = min(saved).removesuffix(".pt").rpartition("_")[2]
        raise ValueError(
            f"the number of processes must be {number}, with which {folder} was saved, got "
            f"{args.world_size}: launch as many."
        )
    return next((f"{name} is missing" for name in expected if name not in saved), None)


def rollout_batch_steps(args: GRPOConfig) -> int:
    """Return the number of micro-batch passes in which a process trains on a rollout batch."""
    return (args.steps_per_generation or 1) * args.num_iterations


def missing_states(checkpoint: str, args: GRPOConfig) -> list[str]:
    """Return a line for each state that a complete checkpoint lacks, with the consequence."""
    names = [path.name for path in Path(checkpoint).iterdir()]
    lacking = []
    if SETTINGS not in names:
        lacking.append(f"{SETTINGS}: other settings than those it was trained with go unnoticed")
    if not any(name.startswith(("optimizer", "global_step")) for name in names):
        lacking.append(f"{OPTIMIZER_NAME}: the optimizer and the learning rate start anew")
    elif not {SCHEDULER_NAME, "latest"} & {*names}:  # `latest` names DeepSpeed's folder of both
        lacking.append(f"{SCHEDULER_NAME}: the optimizer and the learning rate start anew")
    if args.sync_ref_model and not any(name.startswith("reference") for name in names):
        lacking.append("reference*.pt: the reference starts from the original model")
    return lacking
