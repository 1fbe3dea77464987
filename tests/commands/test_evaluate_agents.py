"""`barl evaluate` with tools and environments: episodes of a model that was taught to call."""

import dataclasses
import json
import random
import shutil

import pytest
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

from barl_trl.commands.evaluate import run
from barl_trl.data import PAPER_SYSTEM_PROMPT
from barl_trl.evaluation.records import convert_responses
from barl_trl.evaluation.responses import read_response_file
from barl_trl.synthetic.number import NUMBER_MODEL_DIR
from barl_trl.trainer.records import read_records

from ..distributed.launching import launch
from ..tiny import tiny_tokenizer
from ..trainer.playing import call, described, dialog, save_taught

HERE = "tests.commands.test_evaluate_agents"
PROBLEMS = [{"problem": f"Look at {n}", "answer": str(n + 6), "shift": n + 5} for n in range(3)]


@described
def look(key: int) -> str:
    return f"not \\boxed{{9}} but {key + 6}"


def untold(key):
    """Look up a key."""


class Game:
    """`look` tells the secret and some noise; the answer is what was looked at last."""

    def reset(self, solution, shift, **row):
        self.secret, self.shift, self.answer = int(solution), int(shift), None
        return f" shift {shift}"

    @described
    def look(self, key: int) -> str:
        self.answer = key + 6
        return f"{self.secret == self.answer} {self.shift} {random.random():.9f}"


CALL, LAST = call("look", key=1), r"So \boxed{8}"


SYSTEM = {"role": "system", "content": PAPER_SYSTEM_PROMPT}
RESULTS = {"Look at 1": look(1), "Look at 1 shift 6": "True 6 0.123456789"}
DIALOGS = [[SYSTEM, *dialog(asked, CALL, told, LAST)] for asked, told in RESULTS.items()]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return save_taught(tmp_path_factory.mktemp("model"), DIALOGS, tools=[look], hidden_size=64)


@pytest.fixture
def evaluate(model, tmp_path, write):
    """Runs the command in this process; returns its results and its responses."""
    path = write("mine.jsonl", *PROBLEMS)

    def evaluate(folder="out", **options):
        settings = {"model": model, "benchmarks": f"mine={path}", "max_tokens": 300}
        settings |= {"output_dir": tmp_path / folder, "template": "qwen2.5-math"}
        given = {name: value for name, value in (settings | options).items() if value is not None}
        pairs = ((f"--{name}", str(value)) for name, value in given.items())
        run([text for pair in pairs for text in pair])
        results = json.loads((tmp_path / folder / "results.json").read_text())
        return results, read_response_file(tmp_path / folder / "mine.jsonl")

    return evaluate


def test_an_episode_is_a_response_with_all_its_turns(evaluate, model):
    results, responses = evaluate(tools=f"{HERE}.look")
    tokenizer = AutoTokenizer.from_pretrained(model)
    for problem, response in zip(PROBLEMS, responses, strict=True):
        asked = [SYSTEM, {"role": "user", "content": problem["problem"]}]
        assert response.messages[:2] == asked
        called, told, last = response.messages[2:]
        assert called["tool_calls"][0]["function"] == {"name": "look", "arguments": {"key": 1}}
        assert told == {"role": "tool", "name": "look", "content": look(1)}
        assert last == {"role": "assistant", "content": LAST}
        options = {"tools": [look], "tokenize": False, "add_generation_prompt": True}
        assert response.prompt == tokenizer.apply_chat_template(asked, **options)
        written = '{"name": "look", "arguments": {"key": 1}} So \\boxed{8}'
        assert response.response.split() == written.split()
        assert response.tokens == len(tokenizer.encode(CALL)) + 1 + len(tokenizer.encode(LAST))
        assert not response.truncated
        assert (response.answer, response.reward) == ("8", float(problem["answer"] == "8"))
    assert results["benchmarks"]["mine"]["accuracy"] == pytest.approx(1 / 3)
    assert results["tools"] == [f"{HERE}.look"]
    assert "call tools" in evaluate("alone", model=NUMBER_MODEL_DIR, max_tokens=30)[0]["advice"]
    _, cut_off = evaluate("short", tools=f"{HERE}.look", max_tokens=30)
    assert {(one.truncated, one.answer, len(one.messages)) for one in cut_off} == {(True, None, 3)}


def test_an_environment_gets_the_row_and_tells_the_answer(evaluate):
    environment = {"environment_factory": f"{HERE}.Game"}
    _, responses = evaluate(**environment)
    assert [response.answer for response in responses] == ["7"] * 3
    assert [response.reward for response in responses] == [0.0, 1.0, 0.0]
    told = [response.messages[-2]["content"].split() for response in responses]
    assert [words[:2] for words in told] == [["False", "5"], ["True", "6"], ["False", "7"]]
    assert responses[0].messages[1]["content"] == "Look at 0 shift 5"
    capped = {"max_tool_calling_iterations": 1}
    _, once = evaluate("once", **environment, **capped)
    assert [one.response for one in once] == [one.response for one in responses]
    for name, value in (capped | {"tools": f"{HERE}.look"}).items():
        with pytest.raises(ValueError, match=f"{name} must be None as in the responses in"):
            evaluate(**environment, **{name: value})


SAMPLED = {"environment_factory": f"{HERE}.Game", "temperature": 1.3, "top_k": 9}
SAMPLED |= {"num_samples": 2, "batch_size": 4}


def test_a_sampled_run_that_was_killed_goes_on_to_the_same_episodes(evaluate, tmp_path):
    results, whole = evaluate("whole", **SAMPLED)
    lines = (tmp_path / "whole" / "mine.jsonl").read_bytes().splitlines(keepends=True)
    evaluate("killed", **SAMPLED)
    path = tmp_path / "killed" / "mine.jsonl"
    path.write_bytes(b"".join(lines[:3]) + lines[3][:40])
    assert evaluate("killed", **SAMPLED)[1] == whole
    assert len({response.response for response in whole}) > 1
    assert results["benchmarks"]["mine"]["pass@k"].keys() == {"1", "2"}
    assert all(one.drawing == {"temperature": 1.3, "top_k": 9} for one in whole)


@pytest.mark.parametrize(
    ("options", "environment"),
    [
        *[({"tools": "look"}, {}), ({"tools": "no_module.look"}, {})],
        *[({"tools": f"{HERE}.PROBLEMS"}, {}), ({"environment_factory": f"{HERE}.Gone"}, {})],
        *[({"template": "plain"}, {}), ({"template": "Q: {problem}"}, {})],
        *[({"tools": f"{HERE}.untold"}, {}), ({"max_tool_calling_iterations": 0}, {})],
        *[({}, {"ACCELERATE_USE_FSDP": "true"}), ({"tools": None}, {"WORLD_SIZE": "2"})],
        ({"backend": "vllm"}, {"WORLD_SIZE": "2"}),
        ({"backend": "vllm", "model_init_kwargs": '{"max_model_len": 9, "dtype": "x"}'}, {}),
    ],
)
def test_what_cannot_be_played_is_refused_before_a_model_is_loaded(
    evaluate, monkeypatch, options, environment
):
    monkeypatch.setattr(AutoModelForCausalLM, "from_pretrained", None)
    monkeypatch.setattr("barl_trl.evaluation.evaluator.find_spec", lambda _: True)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ValueError, match="must"):
        evaluate(**{"tools": f"{HERE}.look"} | options)


@pytest.mark.slow
def test_two_processes_share_what_one_has_left(evaluate, model, tmp_path):
    """Greedy episodes are those of one process; the third problem leaves a process without one."""
    options = {"environment_factory": f"{HERE}.Game", "batch_size": 3}
    results, expected = evaluate("one", **options)
    shutil.copytree(tmp_path / "one", folder := tmp_path / "two")
    lines = (folder / "mine.jsonl").read_bytes().splitlines(keepends=True)
    (folder / "mine.jsonl").write_bytes(lines[0] + lines[1][:40])
    settings = {"model": model, "benchmarks": f"mine={tmp_path / 'mine.jsonl'}"} | options
    settings |= {"max_tokens": 300, "template": "qwen2.5-math", "output_dir": folder}
    words = [word for name, value in settings.items() for word in (f"--{name}", str(value))]
    process = launch("cpu/ddp.yaml", "barl_trl", "evaluate", *words)
    assert process.stdout.count("template: qwen2.5-math") == 1
    responses = read_response_file(folder / "mine.jsonl")
    assert responses[0] == expected[0]

    def but_for_noise(response):
        *others, told, last = response.messages
        told = told | {"content": told["content"].split()[:2]}
        messages = [*others, told, last]
        return dataclasses.replace(response, messages=messages, token_ids=None, own_tokens=None)

    assert [*map(but_for_noise, responses)] == [*map(but_for_noise, expected)]
    of_two = json.loads((folder / "results.json").read_text())
    assert of_two["benchmarks"] == results["benchmarks"]
    assert [run["processes"] for run in of_two["runs"]] == [1, 2]


def test_a_chat_template_without_tools_is_refused(evaluate, model, tmp_path):
    tokenizer = AutoTokenizer.from_pretrained(model)
    tokenizer.chat_template = tiny_tokenizer().chat_template
    tokenizer.save_pretrained(tmp_path / "tokenizer")
    AutoConfig.from_pretrained(model).save_pretrained(tmp_path / "tokenizer")
    with pytest.raises(ValueError, match=r"template must show tools"):
        evaluate(tools=f"{HERE}.look", model=tmp_path / "tokenizer")


def test_records_show_who_wrote_what(evaluate, tmp_path):
    """Observations are marked in the records, and the call is readable."""
    _, responses = evaluate(environment_factory=f"{HERE}.Game")
    convert_responses(tmp_path / "out")
    records = [*read_records(tmp_path / "out" / "mine" / "beliefs")]
    assert [record["answer"] for record in records] == ["7"] * 3
    for record, response in zip(records, responses, strict=True):
        own = record["own_tokens"]
        pairs = [*zip(record["tokens"], own, strict=True)]
        written, told = ("".join(text for text, one in pairs if one == k) for k in (1, 0))
        assert written == f"{CALL}<|im_end|>{LAST}<|im_end|>"
        assert response.messages[-2]["content"] in told
        assert record["token_ids"] == response.token_ids
        start = own.index(0) + own.count(0)
        assert record["turn_ends"] == [start, len(own)]
        assert record["step_ends"] == [start, len(own) - 1]
        assert record["observed_tools"] == [["look"], []]
        assert record["ended_in_call"] is False
