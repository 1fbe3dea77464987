"""Checks before a model is loaded that its folder and the packages of extras are there."""

from collections.abc import Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open

from ...report.json_files import read_json, regular

_OF_THEIR_NAME = (
    *("clearml", "codecarbon", "comet_ml", "dagshub", "dvclive", "mlflow", "neptune"),
    *("swanlab", "trackio", "wandb"),
)
_TRACKERS = {name: (name,) for name in _OF_THEIR_NAME} | {
    "azure_ml": ("azureml.core",),
    "flyte": ("flytekit",),
    "tensorboard": ("tensorboard", "tensorboardX"),
}
"""Name that transformers gives a tracker -> modules, one of which must be installed."""
_OBJECTS = ("config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json")
"""Files of a model that transformers takes for JSON objects without a look."""

_CONFIGURATIONS = ("config.json", "adapter_config.json")
"""Files of which the folder of a model, or of an adapter, has one."""


def refuse_unusable_folder(name: str, model: str) -> None:
    """Refuse a path that does not exist, damaged files, and a folder that holds no model.

    transformers would take a missing path for a Hub id, and does not name a damaged file. A name
    without a slash must be an existing folder, or a model in the Hub's cache.

    Args:
        name: The setting, for the error message.
        model: A path or a Hub id.

    Raises:
        ValueError: There is no such folder or model, it has no configuration, its weights are
            GGUF, or a file in it is damaged.
    """
    path = Path(model)
    is_gguf = path.suffix == ".gguf" and path.is_file()
    if model.startswith(("/", ".", "~")) and not (path.is_dir() or is_gguf):
        raise ValueError(
            f"{name} must be a Hub id or an existing folder, got {model!r}: there is none."
        )
    if "/" not in model and not path.exists():
        from huggingface_hub.constants import HF_HUB_CACHE  # imported late: it takes 0.2 s

        if not Path(HF_HUB_CACHE, f"models--{model}").is_dir():
            raise ValueError(
                f"{name} must be a Hub id as OWNER/NAME or an existing folder, got {model!r}: "
                f"there is no such folder in {Path.cwd()}, and no such model in the Hub's cache."
            )
    path = path.expanduser()
    files = [path] if path.suffix == ".gguf" else sorted(path.glob("*.gguf"))
    if files and not (path / "config.json").exists():
        raise ValueError(
            f"{name} must be a folder with config.json, got {model!r}, which is GGUF: write it as "
            f"one with `python examples/real_model/convert.py {files[0]} FOLDER`."
        )
    for file in sorted(path.glob("*.json")):
        value = read_json(file, **{"added_tokens": list} if file.name == "tokenizer.json" else {})
        if file.name in _OBJECTS and not isinstance(value, dict):
            raise ValueError(f"{file} must hold an object, got {value!r:.40}: copy it again.")
    for file in sorted(path.glob("*.safetensors")):
        try:
            with safe_open(regular(file), "np"):
                pass  # the header says how long the file must be
        except SafetensorError as error:
            raise ValueError(
                f"{file} must be a whole file of weights, got {error}: copy or download it again."
            ) from None
    if path.is_dir() and not any((path / one).exists() for one in _CONFIGURATIONS):
        checkpoints = sorted(path.glob("checkpoint-*"), key=lambda one: one.stat().st_mtime)
        hint = f"did you mean {checkpoints[-1]}?" if checkpoints else "name the model's folder."
        raise ValueError(
            f"{name} must be a folder with {' or '.join(_CONFIGURATIONS)}, got {model!r}: {hint}"
        )


@contextmanager
def named(name: str, model: str) -> Iterator[None]:
    """Name the setting and the model where transformers says why it cannot read the model's files.

    Args:
        name: The setting.
        model: Its value.

    Raises:
        ValueError: The files cannot be read, or the Hub cannot be reached.
    """
    try:
        yield
    except (OSError, ValueError) as error:
        why = " ".join(str(error).split())
        raise ValueError(
            f"{name} must be a model whose files can be read, got {model!r}: {why}"
        ) from None


def refuse_missing_vllm(rule: str, value: object) -> None:
    """Refuse a setting that needs vLLM if vLLM is missing.

    Args:
        rule: The setting and what it must be without vLLM, for the error message.
        value: The value that needs vLLM.

    Raises:
        ImportError: vLLM is not installed.
    """
    if not _is_installed("vllm"):
        raise ImportError(
            f"{rule} without vLLM, got {value!r}: install it with `pip install 'barl-trl[vllm]'`."
        )


def refuse_missing_packages(settings: Any) -> None:
    """Refuse settings that need a package which is not installed.

    Args:
        settings: An object with TRL's settings.

    Raises:
        ImportError: `use_vllm` is set without vLLM.
        ValueError: `report_to` nearly names a tracker of transformers; it, `deepspeed` or
            `use_liger_kernel` needs a package that is not installed; or the file of `deepspeed` is
            missing.
    """
    if settings.use_vllm:
        refuse_missing_vllm("use_vllm must be False", True)
    report_to = settings.report_to or []
    installed = [name for name, packages in _TRACKERS.items() if any(map(_is_installed, packages))]
    for name in [report_to] if isinstance(report_to, str) else report_to:
        if name in ("all", "none", *installed):
            continue
        near = [name] if name in _TRACKERS else get_close_matches(name, _TRACKERS, 1, cutoff=0.8)
        if near:  # transformers tells of any other name, or has a tracker of it
            way_out = "install it." if near[0] == name else f"did you mean {near[0]!r}?"
            raise ValueError(
                f"report_to must name installed trackers, got {name!r}: {way_out} Installed are: "
                f"{', '.join(installed) or 'none'}."
            )
    file = settings.deepspeed
    if isinstance(file, str) and not file.startswith("{") and not Path(file).is_file():
        raise ValueError(
            f"deepspeed must name an existing file, got {file!r}: `barl train "
            "--accelerate_config zero2` takes a shipped configuration."
        )
    if settings.deepspeed and not _is_installed("deepspeed"):
        raise ValueError(
            f"deepspeed must be None without DeepSpeed, got {settings.deepspeed!r:.80}: install it "
            "with `pip install 'barl-trl[deepspeed]'`."
        )
    if settings.use_liger_kernel and not _is_installed("liger_kernel"):
        raise ValueError("use_liger_kernel must be False, got True: pip install liger-kernel.")


def _is_installed(module: str) -> bool:
    """Return whether a module can be found."""
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # the parent package is missing
        return False
