"""What must be there before a model is loaded: folders, and packages that are extras."""

from pathlib import Path


def refuse_unusable_folder(name: str, model: str) -> None:
    """Refuse a path that does not exist, which would be taken for a Hub id, and GGUF files."""
    is_gguf = model.endswith(".gguf") and Path(model).is_file()
    if model.startswith(("/", ".", "~")) and not (Path(model).is_dir() or is_gguf):
        raise ValueError(
            f"{name} must be a Hub id or an existing folder, got {model!r}: there is none."
        )
    refuse_bare_name(name, model)
    path = Path(model).expanduser()
    files = [path] if path.suffix == ".gguf" else sorted(path.glob("*.gguf"))
    if files and not (path / "config.json").exists():
        raise ValueError(
            f"{name} must be a folder with config.json, got {model!r}, which is GGUF: write it as "
            f"one with `python examples/real_model/convert.py {files[0]} FOLDER`."
        )


def refuse_bare_name(name: str, model: str) -> None:
    """Refuse a name without a slash that is no folder, unless the Hub's cache has such a model."""
    if "/" in model or Path(model).exists():
        return
    from huggingface_hub.constants import HF_HUB_CACHE  # only now: it takes a fifth of a second

    if not Path(HF_HUB_CACHE, f"models--{model}").is_dir():
        raise ValueError(
            f"{name} must be a Hub id as OWNER/NAME or an existing folder, got {model!r}: there is "
            f"no such folder in {Path.cwd()}, and no such model in the Hub's cache."
        )


def make_output_dir(output_dir: str) -> None:
    """Make the output folder, or refuse it before the first step instead of after it."""
    try:
        Path(output_dir).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ValueError(
            f"output_dir must be a folder that can be made, got {output_dir!r} ({error.strerror}): "
            "name another."
        ) from None


def refuse_missing_vllm(rule: str, value: object) -> None:
    """Refuse a setting that needs vLLM if vLLM is missing, before a model is loaded.

    Args:
        rule: The setting, and what it must be without vLLM.
        value: The value that needs it.

    Raises:
        ImportError: vLLM is not installed.
    """
    from trl.import_utils import is_vllm_available  # only now: it imports torch

    if not is_vllm_available():
        raise ImportError(
            f"{rule} without vLLM, got {value!r}: install it with `pip install 'barl-trl[vllm]'`."
        )
