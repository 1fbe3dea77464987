"""What is not there is said before a model is loaded."""

import shutil
from importlib.util import find_spec
from types import SimpleNamespace

import pytest
from barl_trl.trainer.checks.environment import (
    refuse_missing_packages,
    refuse_missing_vllm,
    refuse_unusable_folder,
)
from transformers.integrations import (
    INTEGRATION_TO_CALLBACK,
    get_available_reporting_integrations,
)


@pytest.mark.parametrize("model", ["/no/such", "./no-such", "~/no-such"])
def test_a_path_to_a_model_must_be_a_folder(tmp_path, monkeypatch, model):
    monkeypatch.chdir(tmp_path)
    message = f"model must be a Hub id or an existing folder, got '{model}': there is none"
    with pytest.raises(ValueError, match=message):
        refuse_unusable_folder("model", model)


def test_folders_and_names_on_the_hub_are_models(tmp_path, monkeypatch):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "config.json").write_text("{}")
    (tmp_path / "adapter_config.json").write_text("{}")
    monkeypatch.chdir(tmp_path)
    for model in (str(tmp_path), "./mine", "Qwen/Qwen2.5-Math-1.5B", "mine"):
        refuse_unusable_folder("model", model)


def test_a_folder_without_a_configuration_is_no_model(tmp_path):
    message = r"model must be a folder with config.json or adapter_config.json, got '.*': "
    with pytest.raises(ValueError, match=message + "name the model's folder"):
        refuse_unusable_folder("model", str(tmp_path))
    (tmp_path / "checkpoint-20").mkdir()
    with pytest.raises(ValueError, match=message + r"did you mean .*/checkpoint-20\?"):
        refuse_unusable_folder("model", str(tmp_path))


def test_a_file_for_deepspeed_must_exist(tmp_path):
    with pytest.raises(ValueError, match=r"deepspeed must name an existing file, got 'zero9.json'"):
        reporting_to(deepspeed="zero9.json")


@pytest.mark.parametrize("content", [b"{", b'"\xff"', b"[" * 9999])
def test_a_folder_with_damaged_json_is_refused_by_the_files_name(tmp_path, content):
    (tmp_path / "tokenizer.json").write_bytes(content)
    with pytest.raises(ValueError, match=r"^[^\n]*/tokenizer.json must [^\n]*$"):
        refuse_unusable_folder("model", str(tmp_path))


@pytest.mark.parametrize(
    "name", ["config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json"]
)
def test_a_folder_with_foreign_json_is_refused_by_the_files_name(tmp_path, name):
    (tmp_path / name).write_text("[1]")
    with pytest.raises(ValueError, match=rf"^[^\n]*/{name} must [^\n]*$"):
        refuse_unusable_folder("model", str(tmp_path))


@pytest.mark.parametrize("kept", [0, 1, 1000, -1])
def test_weights_that_were_copied_in_part_are_refused_by_the_files_name(tmp_path, model_path, kept):
    folder = shutil.copytree(model_path, tmp_path / "model")
    refuse_unusable_folder("model", str(folder))
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:kept])
    message = (
        rf"^{weights} must be a whole file of weights, got [^\n]*: copy or download it again.$"
    )
    with pytest.raises(ValueError, match=message):
        refuse_unusable_folder("model", str(folder))


@pytest.mark.parametrize("model", ["gguf", "gguf/small.gguf"])
def test_gguf_is_refused_with_the_way_to_a_folder(tmp_path, monkeypatch, model):
    (tmp_path / "gguf").mkdir()
    (tmp_path / "gguf" / "small.gguf").touch()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match=r"real_model/convert.py gguf/small.gguf FOLDER"):
        refuse_unusable_folder("model", model)


@pytest.mark.skipif(find_spec("vllm") is not None, reason="vLLM is installed")
def test_what_needs_vllm_says_how_to_install_it():
    message = r"use_vllm must be False without vLLM, got True: .*`pip install 'barl-trl\[vllm\]'`"
    with pytest.raises(ImportError, match=message):
        refuse_missing_vllm("use_vllm must be False", True)


def test_a_name_without_a_slash_is_a_folder_or_in_the_hubs_cache(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    with pytest.raises(ValueError, match=r"model must be a Hub id as OWNER/NAME or .* got 'gpt2'"):
        refuse_unusable_folder("model", "gpt2")
    (tmp_path / "hub" / "models--gpt2").mkdir(parents=True)
    refuse_unusable_folder("model", "gpt2")


def reporting_to(*names, deepspeed=None):
    settings = {"use_vllm": False, "use_liger_kernel": False, "deepspeed": deepspeed}
    refuse_missing_packages(SimpleNamespace(report_to=[*names], **settings))


def test_trackers_are_told_by_the_names_that_transformers_has_for_them():
    for name in set(INTEGRATION_TO_CALLBACK) - {
        "kubeflow",
        *get_available_reporting_integrations(),
    }:
        with pytest.raises(
            ValueError, match=f"must name installed trackers, got '{name}': install"
        ):
            reporting_to("none", name)


def test_a_name_that_only_transformers_knows_is_left_to_it():
    reporting_to("all", "kubeflow")
    with pytest.raises(ValueError, match="got 'wanbd': did you mean 'wandb'"):
        reporting_to("wanbd")
