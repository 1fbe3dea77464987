"""What a complete checkpoint is.

`exact_resume.py` writes and resumes by it, `barl train` finds the checkpoint to go on from.
"""

import json
from pathlib import Path
from zipfile import BadZipFile, ZipFile

from accelerate.logging import get_logger
from safetensors import SafetensorError, safe_open
from transformers.trainer import OPTIMIZER_NAME, SCHEDULER_NAME, TRAINER_STATE_NAME
from transformers.trainer_utils import sort_checkpoints
from trl import GRPOConfig

from ...report.json_files import read_json, regular

logger = get_logger(__name__)

SETTINGS = "settings.json"
"""What the checkpoint was trained with."""

_END_MARKER = "complete.json"
"""It is written last, and lists the sizes of the files that are not text."""

_WEIGHTS = ("*.safetensors", "*/*.safetensors", "pytorch_model*", "adapter_model*", "global_step*")
_TEXTS = (".json", ".jinja", ".md", ".txt")  # a user may edit them
_ENTROPY = "entropy_ctrl_state.json"
_KEYS: dict[str, dict[str, type]] = {
    TRAINER_STATE_NAME: {"global_step": int, "epoch": float},
    _END_MARKER: {"sizes": dict},
}
_REPLACEABLE = (OPTIMIZER_NAME, SCHEDULER_NAME)  # without them, they start anew: it is said


def reopen(checkpoint: Path) -> None:
    """Let a checkpoint count as incomplete before its files are written anew."""
    for name in (_END_MARKER, TRAINER_STATE_NAME):
        (checkpoint / name).unlink(missing_ok=True)


def write_end_marker(checkpoint: Path) -> None:
    """List the files of a checkpoint to which nothing more is written."""
    paths = [path for path in sorted(checkpoint.rglob("*")) if path.is_file()]
    sizes = {
        str(path.relative_to(checkpoint)): path.stat().st_size
        for path in paths
        if path.suffix not in _TEXTS
    }
    partial = checkpoint / f"{_END_MARKER}.partial"
    partial.write_text(json.dumps({"sizes": sizes}, indent=1) + "\n", encoding="utf-8")
    partial.replace(checkpoint / _END_MARKER)


def rollouts_name(rank: int, world_size: int) -> str:
    """Return the name of the file that holds the rollouts of a process."""
    return f"rollouts_{rank}_of_{world_size}.pt"


def checkpoint_to_resume(value: str | bool | None, args: GRPOConfig) -> str | None:
    """Find the checkpoint that `resume_from_checkpoint` means; recipes and options are texts.

    A warning names what is passed over, and why.

    Args:
        value: A path; `true`: the last complete checkpoint in `output_dir`; `auto`: the same, or
            none where there is none.
        args: The settings of the run.

    Raises:
        ValueError: It is incomplete, there is none, or another number of processes saved it.
    """
    choice = str(value or False).lower()
    if choice == "false":
        return None
    if choice not in ("true", "auto"):
        if fault := _find_fault(str(value), args):
            raise ValueError(
                f"resume_from_checkpoint must be complete, got {value}: {fault}. `true` takes the "
                f"last complete one; --model_name_or_path {value} starts anew with its weights."
            )
        return str(value)
    checkpoint, faults = last_complete_checkpoint(args)
    if choice == "true" and checkpoint is None:
        reasons = f" ({'; '.join(faults)})" if faults else ""
        raise ValueError(
            "resume_from_checkpoint must find a complete checkpoint, got none in "
            f"{args.output_dir}{reasons}: leave it out to start anew, as `auto` does then."
        )
    if faults:
        way_on = f"resuming from {checkpoint}" if checkpoint else "starting anew"
        logger.warning(f"incomplete: {'; '.join(faults)}; {way_on}")
    return checkpoint


def last_complete_checkpoint(
    args: GRPOConfig, *, until: int | None = None
) -> tuple[str | None, list[str]]:
    """Return the newest complete checkpoint of a run, and what newer ones lack.

    Args:
        args: The settings of the run.
        until: The last step that counts; `None`: all do.

    Raises:
        ValueError: Another number of processes saved it.
    """
    output_dir, faults = str(args.output_dir), []
    for checkpoint in reversed(sort_checkpoints(output_dir) if Path(output_dir).is_dir() else []):
        if until is not None and int(checkpoint.rpartition("-")[2]) > until:
            continue
        if (fault := _find_fault(checkpoint, args)) is None:
            return checkpoint, faults
        faults.append(f"{checkpoint}: {fault}")
    return None, faults


def _find_fault(checkpoint: str, args: GRPOConfig) -> str | None:
    """Say what keeps a run from going on from a checkpoint, if anything does.

    A checkpoint without end marker, from an earlier version or of TRL's, needs files that can be
    read, and rollouts if it lies in the middle of a rollout batch.

    Args:
        checkpoint: Its folder.
        args: The settings of the run.

    Raises:
        ValueError: Another number of processes saved it.
    """
    folder = Path(checkpoint)
    if not folder.is_dir():
        return "there is no such folder"
    if not (folder / TRAINER_STATE_NAME).exists():
        return f"{TRAINER_STATE_NAME} is missing"
    for path in sorted(folder.rglob("*")):
        if fault := _fault_of_file(path):
            return f"{path.relative_to(folder)} {fault}"
    missing = _missing(folder, args)
    return f"{missing} is missing" if missing else _fault_of_rollouts(folder, args)


def _fault_of_file(path: Path) -> str | None:
    """Say why a file cannot be loaded. Its structure is read, not all of its numbers."""
    try:
        if path.suffix == ".json":
            is_index = path.name.endswith(".index.json")
            read_json(path, **({"weight_map": dict} if is_index else _KEYS.get(path.name, {})))
        elif path.suffix == ".safetensors":
            with safe_open(regular(path), framework="pt"):
                pass
        elif path.suffix in (".pt", ".pth", ".bin"):
            with ZipFile(regular(path)) as archive:
                for name in archive.namelist():
                    if name.endswith("/data.pkl"):
                        archive.read(name)
    except (OSError, ValueError, BadZipFile, SafetensorError) as error:
        return f"cannot be read ({error or type(error).__name__})"
    return None


def _missing(folder: Path, args: GRPOConfig) -> str | None:
    """Name a file that was there, or must have been."""
    if (folder / _END_MARKER).exists():
        sizes = read_json(folder / _END_MARKER)["sizes"]
        for name, size in sizes.items():
            path = folder / name
            if name not in _REPLACEABLE and not path.exists():
                return name
            if path.exists() and path.stat().st_size != size:
                return f"a part of {name}"
    elif args.use_adaptive_entropy and not (folder / _ENTROPY).exists():
        return _ENTROPY  # TRL writes it after `trainer_state.json`
    for index in folder.glob("*.index.json"):
        for name in sorted(set(read_json(index)["weight_map"].values())):
            if not (folder / name).exists():
                return name
    return None if any(any(folder.glob(name)) for name in _WEIGHTS) else "model.safetensors"


def _fault_of_rollouts(folder: Path, args: GRPOConfig) -> str | None:
    saved = {path.name for path in folder.glob("rollouts_*_of_*.pt")}
    ranks = [args.process_index] if args.save_on_each_node else range(args.world_size)
    expected = [rollouts_name(rank, args.world_size) for rank in ranks]
    lacking = [name for name in expected if name not in saved]
    if saved and len(lacking) == len(expected):
        number = min(saved).removesuffix(".pt").rpartition("_")[2]
        raise ValueError(
            f"the number of processes must be {number}, with which {folder} was saved, got "
            f"{args.world_size}: launch as many."
        )
    if saved:
        return f"{lacking[0]} is missing" if lacking else None
    step = read_json(folder / TRAINER_STATE_NAME)["global_step"]
    every = rollout_batch_steps(args)
    if step * args.gradient_accumulation_steps % every:
        return (
            f"{expected[0]} is missing, which only BARLTrainer saves, and step {step} lies in the "
            "middle of a rollout batch"
        )
    return None


def rollout_batch_steps(args: GRPOConfig) -> int:
    """Return the passes of a process over which a rollout batch is trained on."""
    return (args.steps_per_generation or 1) * args.num_iterations


def missing_states(checkpoint: str, args: GRPOConfig) -> list[str]:
    """Say what a complete checkpoint lacks, and what becomes of it."""
    names = [path.name for path in Path(checkpoint).iterdir()]
    lacking = []
    if SETTINGS not in names:
        lacking.append(f"{SETTINGS}: other settings than those it was trained with go unnoticed")
    if not any(name.startswith(("optimizer", "global_step")) for name in names):
        lacking.append(f"{OPTIMIZER_NAME}: the optimizer and the learning rate start anew")
    elif not {SCHEDULER_NAME, "latest"} & {*names}:  # DeepSpeed's `latest` names what has both
        lacking.append(f"{SCHEDULER_NAME}: the optimizer and the learning rate start anew")
    if args.sync_ref_model and not any(name.startswith("reference") for name in names):
        lacking.append("reference*.pt: the reference starts from the original model")
    return lacking
