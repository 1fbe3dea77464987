"""`barl evaluate` on the shipped model: responses and results, also where a run goes on."""

import json
import re
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from importlib.util import find_spec
from itertools import islice

import pytest
from transformers import AutoTokenizer

from barl_trl.commands.evaluate import EvaluateArguments, run
from barl_trl.data import load_problems
from barl_trl.evaluation.generation import Drawing
from barl_trl.evaluation.provenance import checkpoint_id, record_training
from barl_trl.graders import GRADERS, verify
from barl_trl.synthetic.search import TINY_MODEL_DIR, problems

from ..paths import ROOT

SEARCH = ROOT / "examples" / "search.jsonl"
FIXED = {"model": str(TINY_MODEL_DIR), "benchmarks": f"search={SEARCH}", "max_tokens": 120}
SAMPLED = {"limit": 20, "temperature": 1.0, "num_samples": 3, "batch_size": 16, "seed": 5}


def arguments(folder, **options):
    settings = FIXED | {"output_dir": folder} | options
    return [text for name, value in settings.items() for text in (f"--{name}", str(value))]


@pytest.fixture
def evaluate(tmp_path, capsys):
    """Runs the command in this process; returns its results and what it printed."""

    def evaluate(folder=None, **options):
        folder = folder or tmp_path / "out"
        run(arguments(folder, **options))
        return json.loads((folder / "results.json").read_text()), capsys.readouterr().out

    return evaluate


def records(folder, name="search"):
    lines = (folder / f"{name}.jsonl").read_text().splitlines()
    return sorted(map(json.loads, lines), key=lambda row: (row["problem_id"], row["sample"]))


def test_results_and_responses_say_all_there_is_to_know(evaluate, tmp_path):
    results, shown = evaluate(limit=30, max_tokens=20)
    expected = {"model": str(TINY_MODEL_DIR), "checkpoint": checkpoint_id(str(TINY_MODEL_DIR))}
    expected |= {"backend": "transformers", "model_init_kwargs": None, "template": "plain"}
    expected |= {"temperature": 0.0, "top_p": None, "max_tokens": 20, "num_samples": 1, "seed": 0}
    expected |= {"grader": GRADERS["math_verify"].label}
    assert {name: results[name] for name in expected} == expected
    [made_by] = results["runs"]
    made = {"dtype": "float32", "attention": "sdpa", "batch_size": 64}
    assert made.items() <= made_by.items()
    assert made_by["command"].startswith("barl evaluate --model ")
    row, responses = results["benchmarks"]["search"], records(tmp_path / "out")
    assert row["num_problems"] == len(responses) == 30
    assert row["accuracy"] == sum(response["reward"] for response in responses) / 30
    assert "template: plain" in shown
    assert f"{100 * row['accuracy']:.1f} ± {100 * row['standard_error']:.1f} %" in shown
    data, _ = load_problems(str(SEARCH), conversational=False)
    for number, response in enumerate(responses):
        solution = data[number]["solution"]
        assert (response["benchmark"], response["problem_id"]) == ("search", number)
        assert (response["problem"], response["solution"]) == (data[number]["prompt"], solution)
        assert response["prompt"] == response["problem"] + "\n"
        assert response["truncated"] == (r"\boxed{" not in response["response"])
        assert response["tokens"] == 20 if response["truncated"] else response["tokens"] < 20
        found = re.findall(r"\\boxed\{(.*?)\}", response["response"])
        assert response["answer"] == (found[-1] if found else None)
        assert response["reward"] == (bool(found) and verify(solution, found[-1]).correct)
    # too many have no answer, which the summary says, with an option that reads more
    share = row["no_answer"]
    assert share > 0.2 and results["advice"].startswith(f"{100 * share:.0f} % of the responses")
    lenient, _ = evaluate(tmp_path / "lenient", limit=30, max_tokens=20, extraction="last_number")
    assert lenient["benchmarks"]["search"]["no_answer"] == 0 and "advice" not in lenient
    for response in records(tmp_path / "lenient"):
        if r"\boxed{" not in response["response"]:
            assert response["answer"] == re.findall(r"\d+", response["response"])[-1]


def test_the_examples_are_the_demos_held_out_problems():
    rows = [json.loads(line) for line in SEARCH.read_text().splitlines()]
    expected = islice(problems(7, held_out=True), 400)
    assert rows == [{"problem": p.prompt.strip(), "answer": p.solution} for p in expected]


def test_a_run_that_was_broken_off_goes_on_to_the_same_responses(evaluate, tmp_path):
    """With half a batch and half a line in the file: the whole batch is made again."""
    whole, shown = evaluate(tmp_path / "whole", **SAMPLED)
    assert whole["benchmarks"]["search"]["pass@k"].keys() == {"1", "2", "3"}
    assert "avg@3" in shown and "temperature 1" in shown
    shutil.copytree(tmp_path / "whole", tmp_path / "broken")
    path = tmp_path / "broken" / "search.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:20]) + lines[20][:20])
    broken, _ = evaluate(tmp_path / "broken", **SAMPLED)
    assert path.read_bytes().startswith(b"".join(lines[:20]))
    assert records(tmp_path / "broken") == records(tmp_path / "whole")
    assert len({record["response"] for record in records(tmp_path / "whole")}) > 20
    assert broken["benchmarks"] == whole["benchmarks"] and len(broken["runs"]) == 2


@pytest.mark.slow
def test_a_run_that_was_killed_goes_on(evaluate, tmp_path):
    killed, settings = tmp_path / "killed", SAMPLED | {"limit": 60}
    command = [sys.executable, "-m", "barl_trl", "evaluate", *arguments(killed, **settings)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    path = killed / "search.jsonl"
    while process.poll() is None and (not path.exists() or path.stat().st_size == 0):
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert 0 < len(path.read_bytes().splitlines()) < 180
    assert json.loads((killed / "results.json").read_text())["benchmarks"] == {}
    evaluate(killed, **settings)
    evaluate(tmp_path / "undisturbed", **settings)
    assert records(killed) == records(tmp_path / "undisturbed")


def test_a_finished_run_generates_nothing_and_more_is_added(evaluate, tmp_path):
    first, _ = evaluate(limit=5)
    assert evaluate(limit=5)[0] == first
    more, shown = evaluate(limit=5, benchmarks=f"again={SEARCH}")
    assert more["benchmarks"].keys() == {"search", "again"}
    assert more["benchmarks"]["search"] == first["benchmarks"]["search"] and "\nsearch" in shown
    path = tmp_path / "out" / "results.json"
    versions = more["versions"]
    path.write_text(json.dumps(more | {"versions": versions | {"torch": "2.6.0"}}))
    larger, _ = evaluate(limit=7)
    assert larger["versions"]["torch"] == f"2.6.0, {versions['torch']}"
    assert larger["benchmarks"]["search"]["num_problems"] == 7
    assert evaluate(limit=5)[0]["benchmarks"]["search"]["num_problems"] == 5


OTHERS = {"max_tokens": 60, "temperature": 1.0, "template": "Q: {problem}", "grader": "string"}
OTHERS |= {"model_init_kwargs": '{"dtype": "float64"}'}


def test_a_folder_of_other_settings_weights_or_problems_is_refused(evaluate, tmp_path):
    model, path = tmp_path / "model", tmp_path / "mine.jsonl"
    shutil.copytree(TINY_MODEL_DIR, model)
    path.write_text('{"problem": "p", "answer": "1"}\n')
    mine = {"model": model, "benchmarks": f"mine={path}"}
    evaluate(**mine)
    for name, value in OTHERS.items():
        with pytest.raises(ValueError, match=f"{name} must be"):
            evaluate(**mine | {name: value})
    path.write_text('{"problem": "p", "answer": "2"}\n')
    with pytest.raises(ValueError, match="another problem or prompt 0 in mine"):
        evaluate(**mine)
    weights = (model / "model.safetensors").read_bytes()
    (model / "model.safetensors").write_bytes(weights[:-1] + bytes([weights[-1] ^ 1]))
    with pytest.raises(ValueError, match=r"checkpoint must be"):
        evaluate(**mine)


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
    with pytest.raises(ValueError, match=r"no output may be an input"):
        evaluate(tmp_path, benchmarks=f"mine={source}", model="never/loaded")
    assert mine.read_bytes() == content


def test_a_file_that_is_no_response_file_or_names_no_model_stays_as_it_is(evaluate, tmp_path):
    evaluate(limit=1)
    path = tmp_path / "out" / "search.jsonl"
    whole = path.read_bytes()
    for content in (b'{"problem": "p"}\n{"problem"', b"\xff", whole + b"[]\n{"):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=r"search.jsonl:\d must be a response to search"):
            evaluate(limit=2, model="never/loaded")
        assert path.read_bytes() == content
    path.write_bytes(whole)
    (tmp_path / "out" / "results.json").unlink()  # nothing else says by which model they are
    with pytest.raises(ValueError, match=r"output_dir must have results.json"):
        evaluate(limit=2)


def test_mistakes_are_found_before_a_model_is_loaded(evaluate, tmp_path):
    mistakes = [{"grader": "qwen", "extraction": "stated"}, {"grader": "maths"}]
    mistakes += [{"template": "llama-3"}, {"system_prompt": "Hi"}, {"model": "no/such"}]
    for options in [*mistakes, *[{"backend": "vllm"}] * (find_spec("vllm") is None)]:
        with pytest.raises((ValueError, ImportError)):
            evaluate(**options)
    assert not (tmp_path / "out").exists()


OWN_CODE = """
import pathlib, transformers
pathlib.Path({ran!r}).touch()
class OwnConfig(transformers.{family}Config):
    model_type = "own"
class Own(transformers.{family}ForCausalLM):
    config_class = OwnConfig
class OwnTokenizer(transformers.PreTrainedTokenizerFast):
    pass
"""


@pytest.mark.parametrize("part", ["config.json", "tokenizer_config.json"])
def test_a_models_own_code_runs_only_if_that_is_asked_for(evaluate, tmp_path, monkeypatch, part):
    model, ran = shutil.copytree(TINY_MODEL_DIR, tmp_path / "model"), tmp_path / "ran"
    settings = json.loads((model / part).read_text())
    family = json.loads((model / "config.json").read_text())["architectures"][0][:-11]
    (model / "own.py").write_text(OWN_CODE.format(ran=str(ran), family=family))
    own = {"AutoConfig": "own.OwnConfig", "AutoModelForCausalLM": "own.Own"}
    settings |= {"model_type": "own", "auto_map": own}
    if part != "config.json":
        own = {"AutoTokenizer": [None, "own.OwnTokenizer"]}
        settings |= {"tokenizer_class": "OwnTokenizer", "auto_map": own}
    (model / part).write_text(json.dumps(settings))
    monkeypatch.setattr("transformers.dynamic_module_utils.HF_MODULES_CACHE", tmp_path / "code")
    monkeypatch.setattr("builtins.input", lambda *_: "y")  # nobody is asked
    with suppress(ValueError):  # transformers reads such a tokenizer with its own class
        evaluate(model=model, limit=1)
    assert not ran.exists()
    evaluate(tmp_path / "trusted", model=model, limit=1, trust_remote_code=True)
    assert ran.exists()


def test_a_run_that_failed_before_its_first_response_binds_nobody(evaluate):
    with pytest.raises(TypeError, match="no_such"):
        evaluate(limit=2, model_init_kwargs='{"no_such": 1}')
    assert evaluate(limit=2)[0]["model_init_kwargs"] is None


def test_the_prompt_is_that_of_training_and_a_token_is_written_nowhere(evaluate, tmp_path):
    model = tmp_path / "model"
    shutil.copytree(TINY_MODEL_DIR, model)
    tokenizer = AutoTokenizer.from_pretrained(model)
    prompts = {"system_prompt": None, "prompt_template": "[INST] {problem} [/INST]"}
    record_training(tokenizer, **prompts, chat_template_kwargs=None)
    tokenizer.save_pretrained(model)
    results, shown = evaluate(limit=1, model=model, model_init_kwargs='{"token": "hf_canary"}')
    assert results["trained_by"] == tokenizer.init_kwargs["barl_trained_by"]
    assert results["template"] == "as trained"
    assert records(tmp_path / "out")[0]["prompt"].startswith("[INST] ")
    written = [path.read_text() for path in (tmp_path / "out").glob("[!_]*")]  # no lock
    assert len(written) == 2 and "canary" not in "".join([*written, shown])
    with pytest.raises(ValueError, match="JSON") as error:
        evaluate(model_init_kwargs='{"token": "hf_canary"')
    assert "canary" not in str(error.value)


@pytest.mark.parametrize(
    "changed",
    [
        *[{"model_init_kwargs": "[1]"}, {"batch_size": 0}, {"temperature": float("inf")}],
        *[{"temperature": float("nan")}, {"num_samples": 6}, {"max_tool_calling_iterations": 2}],
        *[{"top_p": 0.9}, {"temperature": 0.0, "top_k": 5}, {"temperature": 1.0, "top_p": 0.0}],
        *[{"temperature": 1.0, "top_k": -1}, {"temperature": 1.0, "min_p": 1.5}],
    ],
)
def test_a_value_that_breaks_its_rule_is_refused(changed):
    with pytest.raises(ValueError, match="must"):
        EvaluateArguments("model", "math500", **changed)


def test_values_that_cut_nothing_off_are_as_good_as_none():
    """`--top_p 1` and no `--top_p` go on in the same folder."""
    given = {"top_p": 1.0, "top_k": 0, "min_p": 0.0}
    assert EvaluateArguments("m", "b", **given, temperature=1.0).drawing == Drawing(1.0)
    assert str(EvaluateArguments("m", "b", **given).drawing) == "greedy"
    assert str(Drawing(0.6, top_p=0.95, top_k=20)) == "temperature 0.6, top_p 0.95, top_k 20"
