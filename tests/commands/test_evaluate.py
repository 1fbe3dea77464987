"""`barl evaluate` as users start it: real processes on the shipped model."""

import json
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from importlib.metadata import version
from importlib.util import find_spec
from itertools import islice

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from barl_trl import cli
from barl_trl.data import load_problems
from barl_trl.evaluation.checkpoints import checkpoint_id, record_training
from barl_trl.graders import GRADERS, verify
from barl_trl.synthetic.search import TINY_MODEL_DIR, problems
from barl_trl.trainer.resume import one_writer

from ..paths import ROOT

SEARCH = ROOT / "examples" / "search.jsonl"
FIXED = {"model": str(TINY_MODEL_DIR), "benchmarks": f"search={SEARCH}", "max_tokens": 120}
SAMPLED = {"limit": 40, "temperature": 1.0, "num_samples": 3, "batch_size": 16, "seed": 5}


def arguments(folder, **options):
    settings = FIXED | {"output_dir": folder} | options
    return [text for name, value in settings.items() for text in (f"--{name}", str(value))]


@pytest.fixture
def evaluate(tmp_path, capsys):
    """Runs the command in this process; returns its results and what it printed."""

    def run(folder=None, **options):
        folder = folder or tmp_path / "out"
        cli.main(["evaluate", *arguments(folder, **options)])
        return json.loads((folder / "results.json").read_text()), capsys.readouterr().out

    return run


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", tmp_path / "cache")


def records(folder, name="search"):
    lines = (folder / f"{name}.jsonl").read_text().splitlines()
    return sorted(map(json.loads, lines), key=lambda row: (row["problem_id"], row["sample"]))


def test_the_examples_are_the_demos_held_out_problems():
    rows = [json.loads(line) for line in SEARCH.read_text().splitlines()]
    expected = islice(problems(7, held_out=True), 400)
    assert rows == [{"problem": p.prompt.strip(), "answer": p.solution} for p in expected]


@pytest.mark.slow
def test_docs_show_the_command_and_its_table(tmp_path, capsys, monkeypatch):
    """The accuracy is that of the demo before training, which counts answers by itself."""
    page = (ROOT / "docs" / "evaluation.md").read_text()
    command = re.search(r"^barl evaluate --model src.*$", page, re.MULTILINE)[0]
    monkeypatch.chdir(ROOT)
    cli.main([*shlex.split(command)[1:], "--output_dir", str(tmp_path)])
    shown = capsys.readouterr().out
    table = shown[shown.index("tiny-search, greedy") :].split("math_verify")[0]
    assert "\n".join(line.rstrip() for line in table.splitlines()) in page
    demo = (ROOT / "docs" / "demo.md").read_text()
    accuracy = re.search(r"Before training they are .* and (.*?) % \(greedy\)", demo)[1]
    assert f"│ {accuracy} ±" in table


def test_greedy_results(evaluate, tmp_path):
    results, shown = evaluate(limit=50)
    assert {name: results[name] for name in list(results)[:16]} == {
        "model": str(TINY_MODEL_DIR),
        "checkpoint": checkpoint_id(str(TINY_MODEL_DIR)),
        "backend": "transformers",
        "model_init_kwargs": None,
        "template": "plain",
        "system_prompt": None,
        "chat_template_kwargs": None,
        "temperature": 0.0,
        "top_p": None,
        "top_k": None,
        "min_p": None,
        "max_tokens": 120,
        "num_samples": 1,
        "batch_size": 64,
        "seed": 0,
        "grader": GRADERS["math_verify"].label,
    }
    assert {"barl-trl", "torch", "transformers"} <= set(results["versions"])
    row = results["benchmarks"]["search"]
    responses = records(tmp_path / "out")
    assert row["num_problems"] == len(responses) == 50
    assert row["accuracy"] == sum(response["reward"] for response in responses) / 50
    assert row["source"]["path"] == str(SEARCH)
    assert "template: plain" in shown
    assert f"{100 * row['accuracy']:.1f} ± {100 * row['standard_error']:.1f} %" in shown


def test_a_response_says_all_there_is_to_know(evaluate, tmp_path):
    evaluate(limit=30, max_tokens=20)
    data, _ = load_problems(str(SEARCH), conversational=False)
    for number, response in enumerate(records(tmp_path / "out")):
        solution = data[number]["solution"]
        assert (response["benchmark"], response["problem_id"]) == ("search", number)
        assert (response["problem"], response["solution"]) == (data[number]["prompt"], solution)
        assert response["prompt"] == response["problem"] + "\n"
        assert response["truncated"] == (r"\boxed{" not in response["response"])
        assert response["tokens"] == 20 if response["truncated"] else response["tokens"] < 20
        found = re.findall(r"\\boxed\{(.*?)\}", response["response"])
        assert response["answer"] == (found[-1] if found else None)
        correct = bool(found) and verify(solution, found[-1]).correct
        assert response["reward"] == correct
        assert response["reason"] == "no answer" if not found else response["reason"]


def test_missing_answers_are_said_once_and_the_option_reads_more(evaluate, tmp_path):
    strict, shown = evaluate(tmp_path / "strict", limit=30, max_tokens=20)
    share = strict["benchmarks"]["search"]["no_answer"]
    assert share > 0.2
    assert " ".join(shown.split()).count(strict["advice"]) == 1
    assert strict["advice"].startswith(f"{100 * share:.0f} % of the responses have no answer: ")
    lenient, shown = evaluate(limit=30, max_tokens=20, extraction="last_number")
    assert lenient["grader"] == strict["grader"] | {"extraction": "last_number"}
    assert lenient["benchmarks"]["search"]["no_answer"] == 0
    assert "advice" not in lenient and "--extraction" not in shown
    for response in records(tmp_path / "out"):
        if r"\boxed{" not in response["response"]:
            assert response["answer"] == re.findall(r"\d+", response["response"])[-1]


@pytest.mark.slow
def test_a_run_that_was_killed_goes_on_to_the_same_responses(evaluate, tmp_path):
    undisturbed, _ = evaluate(tmp_path / "undisturbed", **SAMPLED)
    killed = tmp_path / "killed"
    command = [sys.executable, "-m", "barl_trl.cli", "evaluate", *arguments(killed, **SAMPLED)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    path = killed / "search.jsonl"
    while process.poll() is None and (not path.exists() or path.stat().st_size == 0):
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    written = path.read_bytes()
    lines = written.splitlines(keepends=True)
    assert 0 < len(lines) < 120
    assert json.loads((killed / "results.json").read_text())["benchmarks"] == {}
    # half a batch and half a line, wherever the kill came
    path.write_bytes(b"".join(lines[:-3]) + lines[-3][:40])
    resumed, _ = evaluate(killed, **SAMPLED)
    assert path.read_bytes().startswith(b"".join(lines[:-3]))
    assert records(killed) == records(tmp_path / "undisturbed")
    first, second = resumed.pop("runs")
    assert first["command"] == shlex.join(["barl", *command[3:]])
    assert second["date"] >= first["date"]
    assert resumed | {"runs": undisturbed["runs"]} == undisturbed
    assert resumed["benchmarks"]["search"]["pass@k"].keys() == {"1", "2", "3"}


def test_the_record_of_a_run_says_where_and_how(evaluate, tmp_path):
    options = {"limit": 3, "model_init_kwargs": '{"dtype": "float32"}'}
    [run] = evaluate(**options)[0]["runs"]
    assert run["command"] == shlex.join(
        ["barl", "evaluate", *arguments(tmp_path / "out", **options)]
    )
    assert (run["dtype"], run["attention"], run["batch_size"]) == ("float32", "sdpa", 64)
    assert run["hardware"]["gpus"] == []
    again, _ = evaluate(**options | {"limit": 5, "batch_size": 2})
    assert again["runs"][0] == run
    assert [one["batch_size"] for one in again["runs"]] == [64, 2]


def test_a_checkpoint_of_training_names_its_commit(evaluate, tmp_path):
    model = tmp_path / "model"
    shutil.copytree(TINY_MODEL_DIR, model)
    tokenizer = AutoTokenizer.from_pretrained(model)
    prompts = {"system_prompt": None, "prompt_template": "{problem}\n"}
    record_training(tokenizer, **prompts, chat_template_kwargs=None)
    tokenizer.save_pretrained(model)
    results, _ = evaluate(limit=1, model=model)
    assert results["trained_by"] == tokenizer.init_kwargs["barl_trained_by"]
    assert results["trained_by"]["barl-trl"] == version("barl-trl")
    assert results["template"] == "as trained"


AT_MODEL = """
import os, sys
from barl_trl import cli
class Watch:
    def find_spec(self, name, *_):
        if name == "transformers.models.qwen2.modeling_qwen2":
            times = os.times()
            print("AT", times.user + times.system, *sorted(sys.modules))
            sys.meta_path.remove(self)
sys.meta_path.insert(0, Watch())
cli.main(sys.argv[1:])
"""
LATE = {"trl.trainer", "vllm", "peft", "accelerate", "matplotlib", "scipy", "statsmodels"}
LATE |= {"sklearn", "torch._dynamo", "transformers.modeling_utils", "psutil"}


@pytest.mark.slow
def test_what_a_run_does_not_need_is_not_imported_before_the_model(tmp_path):
    """It starts in less than 3 s of CPU; each of these takes between 0.1 and 2 s."""
    command = [sys.executable, "-c", AT_MODEL, "evaluate", *arguments(tmp_path, limit=1)]
    shown = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    [line] = [line for line in shown.splitlines() if line.startswith("AT ")]
    imported = set(line.split())
    assert {"torch", "datasets", "barl_trl.evaluation.generation.backends"} <= imported
    assert LATE & imported == set()


def test_a_finished_run_generates_nothing_and_another_benchmark_is_added(evaluate, tmp_path):
    folder = tmp_path / "out"
    first, _ = evaluate(limit=5)
    assert evaluate(limit=5)[0] == first
    assert len(records(folder)) == 5
    more, shown = evaluate(limit=5, benchmarks=f"again={SEARCH}")
    assert more["benchmarks"].keys() == {"search", "again"}
    assert more["benchmarks"]["search"] == first["benchmarks"]["search"]
    assert "│ search" in shown
    larger, _ = evaluate(limit=7)
    assert larger["benchmarks"]["search"]["num_problems"] == 7
    with pytest.raises(SystemExit, match=r"limit must be at least 7, got 5: .* responses to that"):
        evaluate(limit=5)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"max_tokens": 60}, "max_tokens must be 120 as in the responses in .*, got 60: choose"),
        ({"temperature": 1.0}, "temperature must be 0.0 as in the responses in .*, got 1.0"),
        ({"template": "Q: {problem}"}, "template must be 'plain' .* got 'Q: {problem}'"),
        ({"model_init_kwargs": '{"dtype": "float64"}'}, "model_init_kwargs must be None as in"),
        ({"grader": "string"}, "grader must be {'name': 'math_verify', .* got {'name': 'string'"),
    ],
)
def test_a_folder_of_other_settings_is_refused(evaluate, changed, message):
    evaluate(limit=2)
    with pytest.raises(SystemExit, match=f"barl evaluate: {message}"):
        evaluate(**{"limit": 2} | changed)


def test_how_tokens_were_drawn_is_stated_everywhere(evaluate, tmp_path):
    options = {"limit": 3, "num_samples": 2, "max_tokens": 20}
    drawing = {"temperature": 0.6, "top_p": 0.95, "top_k": 20}
    results, shown = evaluate(**options, **drawing)
    assert {name: results[name] for name in (*drawing, "min_p")} == drawing | {"min_p": None}
    assert "temperature 0.6, top_p 0.95, top_k 20" in " ".join(shown.split())
    assert [record["drawing"] for record in records(tmp_path / "out")] == [drawing] * 6
    # nothing else says by which model responses are
    (tmp_path / "out" / "results.json").unlink()
    with pytest.raises(SystemExit, match=r"output_dir must have results.json beside .*search.json"):
        evaluate(**options, **drawing)


def test_a_folder_of_other_weights_is_refused(evaluate, tmp_path):
    model = tmp_path / "model"
    shutil.copytree(TINY_MODEL_DIR, model)
    evaluate(limit=2, model=model)
    weights = AutoModelForCausalLM.from_pretrained(model)
    torch.nn.init.normal_(weights.model.norm.weight)
    weights.save_pretrained(model)
    with pytest.raises(SystemExit, match=r"checkpoint must be '.*' as in the responses in .*, got"):
        evaluate(limit=2, model=model)


def test_versions_of_all_runs_are_named(evaluate, tmp_path):
    evaluate(limit=2)
    path = tmp_path / "out" / "results.json"
    results = json.loads(path.read_text())
    torch_version = results["versions"]["torch"]
    path.write_text(json.dumps(results | {"versions": results["versions"] | {"torch": "2.6.0"}}))
    for _ in range(2):
        versions = evaluate(limit=3)[0]["versions"]
        assert versions == results["versions"] | {"torch": f"2.6.0, {torch_version}"}


def test_a_folder_of_other_problems_is_refused(evaluate, tmp_path):
    path = tmp_path / "mine.jsonl"
    path.write_text('{"problem": "p", "answer": "1"}\n')
    evaluate(benchmarks=f"mine={path}")
    path.write_text('{"problem": "p", "answer": "2"}\n')
    with pytest.raises(SystemExit, match="got another problem or prompt 0 in mine: choose"):
        evaluate(benchmarks=f"mine={path}")


@pytest.mark.parametrize("place", ["itself", "symlink", "hard link", "folder"])
def test_a_users_file_is_no_output(evaluate, tmp_path, monkeypatch, place):
    """Without an end of line, which looks like what a killed run leaves."""
    monkeypatch.chdir(tmp_path)
    mine = tmp_path / "mine.jsonl"
    mine.write_text('{"problem": "p", "answer": "1"}\n{"problem": "q", "answer": "2"}')
    content, source = mine.read_bytes(), tmp_path / "other.jsonl"
    if place == "symlink":
        source.symlink_to(mine)
    elif place == "hard link":
        source.hardlink_to(mine)
    else:
        source = mine if place == "itself" else tmp_path
    with pytest.raises(SystemExit, match=r"no output may be an input, got .* for both: name anoth"):
        evaluate(tmp_path, benchmarks=f"mine={source}", model="never/loaded")
    assert mine.read_bytes() == content


def test_a_file_that_is_no_response_file_stays_as_it_is(evaluate, tmp_path):
    folder = tmp_path / "out"
    evaluate(limit=1)
    path = folder / "search.jsonl"
    for content in (b'{"problem": "p"}\n{"problem"', b"\xff", path.read_bytes() + b"[]\n{"):
        path.write_bytes(content)
        with pytest.raises(SystemExit, match=r"search.jsonl:\d must be a response to search, got"):
            evaluate(limit=2, model="never/loaded")
        assert path.read_bytes() == content


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"grader": "qwen", "extraction": "stated"}, "extraction must be left at 'boxed' with the"),
        ({"grader": "maths"}, "grader must be one of math_verify, qwen, string, got 'maths'"),
        ({"template": "llama-3"}, "template must be plain, .* got 'llama-3'"),
        ({"system_prompt": "Hi"}, "system_prompt must be left out with the template 'plain', got"),
    ],
)
def test_mistakes_are_found_before_a_model_is_loaded(evaluate, tmp_path, options, message):
    with pytest.raises(SystemExit, match=f"barl evaluate: {message}"):
        evaluate(**options)
    assert not (tmp_path / "out").exists()


def test_a_run_that_failed_before_its_first_response_binds_nobody(evaluate):
    with pytest.raises(TypeError, match="no_such"):
        evaluate(limit=2, model_init_kwargs='{"no_such": 1}')
    results, _ = evaluate(limit=2)
    assert results["model_init_kwargs"] is None


@pytest.mark.skipif(find_spec("vllm") is not None, reason="vLLM is installed")
def test_a_folder_into_which_another_process_writes_is_refused(evaluate, tmp_path):
    folder = tmp_path / "out"
    folder.mkdir()
    with one_writer(folder), pytest.raises(SystemExit, match="barl evaluate: output_dir must have"):
        evaluate(folder, limit=1)
    assert not (folder / "search.jsonl").exists()


def test_vllm_is_missed_at_once(evaluate):
    with pytest.raises(SystemExit, match="backend must be transformers without vLLM, got 'vllm'"):
        evaluate(backend="vllm")


def test_a_template_is_no_markup_and_a_token_is_written_nowhere(evaluate, tmp_path, capsys):
    kwargs = json.dumps({"token": "hf_canary"})
    template = "[INST] {problem} [/INST]"
    results, shown = evaluate(limit=2, model_init_kwargs=kwargs, template=template)
    assert f"template: {template}" in shown
    assert results["model_init_kwargs"] == {"token": None}
    evaluate(limit=3, model_init_kwargs=kwargs, template=template)  # the folder knows its own
    written = [path.read_text() for path in (tmp_path / "out").glob("[!_]*")]  # no lock
    assert len(written) == 2
    assert "canary" not in "".join([*written, shown, *capsys.readouterr()])
    with pytest.raises(SystemExit) as stop:
        evaluate(model_init_kwargs='{"token": "hf_canary"')
    assert "canary" not in str(stop.value)
