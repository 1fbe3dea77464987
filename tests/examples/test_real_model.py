"""The walkthrough on a real model, with a tiny one and few steps."""

import json
import re
import subprocess
import sys

import pytest
import torch
from gguf import MODEL_ARCH, GGUFWriter, get_tensor_name_map
from transformers import AutoModelForCausalLM, AutoTokenizer

from barl_trl import cli

from ..paths import ROOT

FOLDER = ROOT / "examples" / "real_model"


def run(script, *options):
    command = [sys.executable, str(FOLDER / script), *map(str, options)]
    subprocess.run(command, check=True, capture_output=True, text=True, timeout=300)


def rows(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    run("problems.py", folder, "--train", 300, "--test", 50, "--solutions", 40)
    return folder


def test_solutions_lead_to_the_answer_in_right_steps(data):
    for row in rows(data / "solutions.jsonl"):
        *steps, last = row["solution"].split("\n")
        assert last == rf"The answer is \boxed{{{row['answer']}}}."
        sums = [re.search(r"([\d+*\- ]+) = (\d+)", step) for step in steps]
        assert all(eval(found[1]) == int(found[2]) for found in sums)
        assert sums[-1][2] == row["answer"]


def test_no_problem_is_in_two_files(data):
    problems = [row["problem"] for path in data.glob("*.jsonl") for row in rows(path)]
    assert len(problems) == len(set(problems)) == 390


def write_gguf(path, model, tokenizer):
    """In the form of llama.cpp, with weights in float32."""
    config, core = model.config, json.loads(tokenizer.backend_tokenizer.to_str())
    special = tokenizer.added_tokens_decoder
    writer = GGUFWriter(path, "qwen2")
    writer.add_block_count(config.num_hidden_layers)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list(tokenizer.convert_ids_to_tokens(range(len(tokenizer))))
    writer.add_token_merges([" ".join(pair) for pair in core["model"]["merges"]])
    writer.add_token_types([3 if n in special else 1 for n in range(len(tokenizer))])
    writer.add_eos_token_id(tokenizer.eos_token_id)
    writer.add_pad_token_id(tokenizer.pad_token_id)
    writer.add_chat_template(tokenizer.chat_template)
    names = get_tensor_name_map(MODEL_ARCH.QWEN2, config.num_hidden_layers)
    for name, weights in model.state_dict().items():
        writer.add_tensor(names.get_name(name, (".weight", ".bias")), weights.numpy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


@pytest.mark.slow
def test_a_gguf_file_becomes_a_folder_with_the_same_model(tmp_path, model, tokenizer):
    path, folder = tmp_path / "tiny.gguf", tmp_path / "tiny"
    write_gguf(path, model, tokenizer)
    run("convert.py", path, folder)
    torch.testing.assert_close(
        AutoModelForCausalLM.from_pretrained(folder).state_dict(),
        model.state_dict(),
        rtol=0,
        atol=0,
    )
    converted, text = AutoTokenizer.from_pretrained(folder), "3 + 4 = 7.<|im_end|>\n\\boxed{½}"
    assert converted(text).input_ids == tokenizer(text).input_ids
    assert converted.chat_template == tokenizer.chat_template
    assert converted.eos_token == tokenizer.eos_token


@pytest.mark.slow
def test_warm_up_training_and_evaluation(data, tmp_path, model_path, monkeypatch):
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", tmp_path / "cache")
    warm, out = tmp_path / "warm", tmp_path / "out"
    run("warm_up.py", model_path, data / "solutions.jsonl", warm, "--steps", 2)
    recipe = FOLDER / "recipe.yaml"
    options = ["--model_name_or_path", warm, "--dataset_name", data / "train.jsonl"]
    options += ["--output_dir", out, "--max_steps", 1]
    cli.main(["train", "--config", str(recipe), *map(str, options)])
    test = ["--benchmarks", f"test={data / 'test.jsonl'}", "--max_tokens", "8", "--limit", "4"]
    cli.main(["evaluate", "--model", str(out), *test, "--output_dir", str(tmp_path / "responses")])
    results = json.loads((tmp_path / "responses" / "results.json").read_text())
    assert results["template"] == "as trained"
    assert results["benchmarks"]["test"]["num_problems"] == 4
