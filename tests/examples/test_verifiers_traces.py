"""Rollouts as traces: what arrives of the records, and the form that other tools read."""

import json
import runpy
import sys

import numpy as np
import pytest
from examples.verifiers_traces import TRACES, messages_of, write_verifiers

from ..inspector.rollouts import make_record, record_agents, write_run
from ..paths import ROOT

# The fields of verifiers 0.4.0 that are written, from its wheel (in v1: episode.py, trace.py,
# graph.py, types.py, task.py). `verifiers.v1.utils.trace_store.read_episodes` of that version read
# the files of `record_agents`, `record_games`, `write_run` and of an evaluation on 2026-11-26, and
# no field was unknown to its models.
MESSAGES = {
    "user": {"role": str, "content": str},
    "assistant": {"role": str, "content": str, "tool_calls": list | None},
    "tool": {"role": str, "content": str, "tool_call_id": str, "name": str},
}
CALL = {"id": str, "type": str, "name": str, "arguments": str}
TASK = {"type": str, "data": dict, "key": str}
EPISODE = {"id": str, "env": dict, "task": dict, "group": dict, "run": dict, "ok": bool}
EPISODE |= {"traces": list}
TRACE = {"version": int, "id": str, "task": dict, "agent": dict, "nodes": list, "calls": list}
TRACE |= {"rewards": dict, "info": dict, "is_completed": bool, "ok": bool}
NODE = {"parent": int | None, "message": dict, "sampled": bool | None, "token_ids": list | None}
NODE |= {"mask": list | None, "advantages": list | None, "trainer_logprobs": list | None}


def fits(value, fields):
    """Whether an object has these fields and no others; those of a union with None may lack."""
    assert {*value} <= {*fields}
    for name, kind in fields.items():
        assert isinstance(value.get(name), kind)


def episodes(folder, output):
    write_verifiers(folder, output, "mine")
    return [json.loads(line) for line in (output / TRACES).read_text().splitlines()]


def joined(nodes, name):
    return [value for node in nodes for value in node.get(name, ())]


@pytest.fixture(scope="module")
def agents(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "agents"
    _, records = record_agents(folder, "barl")
    return folder / "beliefs", records


def test_file_has_the_form_that_verifiers_reads(agents, tmp_path):
    for episode in episodes(agents[0], tmp_path):
        fits(episode, EPISODE)
        [trace] = episode["traces"]
        fits(trace, TRACE)
        fits(trace["task"], TASK)
        for place, node in enumerate(trace["nodes"]):
            fits(node, NODE)
            assert node.get("parent") == (place - 1 if place else None)
            fits(node["message"], MESSAGES[node["message"]["role"]])
            for call in node["message"].get("tool_calls", ()):
                fits(call, CALL)
            of_model = sum(node.get("mask", ()))
            assert len(node.get("mask", ())) == len(node.get("token_ids", ()))
            assert len(node.get("advantages", ())) == of_model
        for call in trace["calls"]:
            assert trace["nodes"][call["node"]]["sampled"]
            assert call["finish_reason"] in ("stop", "length", "tool_calls")
        for reward in trace["rewards"].values():
            fits(reward, {"score": float, "weight": float})
        work = {"type": "train", "step": 1}
        assert episode["run"] == {"type": "train", "id": "mine", "work": work}


def test_all_of_a_record_arrives(agents, tmp_path):
    folder, records = agents
    for record, episode in zip(records, episodes(folder, tmp_path), strict=True):
        [trace] = episode["traces"]
        first, *nodes = trace["nodes"]
        assert first["message"] == {"role": "user", "content": record["prompt"]}
        said = "".join(node["message"]["content"] for node in nodes)
        assert said == "".join(record["tokens"])
        assert joined(nodes, "token_ids") == record["token_ids"]
        own = record["own_tokens"] or [1] * len(record["tokens"])
        assert joined(nodes, "mask") == [bool(n) for n in own]
        weights = [w for w, its in zip(record["token_weights"], own, strict=True) if its]
        given = joined(nodes, "advantages")
        np.testing.assert_allclose(given, weights, atol=1e-6)
        assert trace["task"]["data"]["answer"] == record["solution"]
        assert trace["rewards"]["accuracy_reward"]["score"] == record["outcome"]
        info = trace["info"]["barl"]
        for name in ("step", "group", "rollout", "prompt_id", "answer", "hypotheses", "step_ends"):
            assert info.get(name) == record[name]
        np.testing.assert_allclose(info["posterior"], record["posterior"], atol=1e-6)


def test_turns_are_messages_and_calls_have_names_and_arguments(agents, tmp_path):
    first, once, thinking, endless = (
        episode["traces"][0]["nodes"][1:] for episode in episodes(agents[0], tmp_path)
    )
    roles = [node["message"]["role"] for node in first]
    assert roles == ["assistant", "tool", "assistant", "tool", "assistant"]
    called = [(call["name"], call["arguments"]) for call in first[0]["message"]["tool_calls"]]
    assert called == [("look", '{"key": 0}'), ("look", '{"key": 1}')]
    told = first[1]["message"]
    assert (told["tool_call_id"], told["name"]) == ("call_0_0", "look, look")
    assert "it is" in told["content"] and first[1]["sampled"] is False
    assert [node["message"]["role"] for node in once] == ["assistant"]
    assert thinking[0]["message"]["tool_calls"][0]["arguments"] == '{"key": 3}'
    assert "tool_calls" not in endless[-1]["message"]  # its result never came


@pytest.mark.parametrize(
    ("said", "arguments"),
    [
        ('<tool_call>{"name": "look", "arguments": ["\\ud800"]}</tool_call>', '["\\ud800"]'),
        ('<tool_call>{"name": "look"}</tool_call>', "{}"),
        ('<tool_call>{"name": "other", "arguments": {}}</tool_call>', ""),
        ("<tool_call>look(1)</tool_call>", ""),
        ('{"name": "look", "parameters": {"a": 1}}', ""),
        ("<tool_call>" + "[" * 100_000, ""),
        ("<tool_call>" * 100_000, ""),
    ],
)  # fmt: skip
def test_arguments_are_empty_where_the_call_cannot_be_read(said, arguments):
    record = make_record(0) | {"tokens": [said, "told", "end"], "own_tokens": [1, 0, 1]}
    record |= {"turn_ends": [2, 3], "observed_tools": [["look"], []]}
    asked, told, end = (message.body for message in messages_of(record))
    called = {"id": "call_0_0", "type": "function", "name": "look", "arguments": arguments}
    assert asked["tool_calls"] == [called]
    assert told["role"] == "tool" and end == {"role": "assistant", "content": "end"}


def test_what_nobody_is_named_for_is_the_users():
    record = make_record(0) | {"tokens": ["a", "b", "c"], "own_tokens": [1, 0, 0]}
    record |= {"turn_ends": [3], "observed_tools": [[]]}
    bodies = [message.body for message in messages_of(record)]
    assert [(one["role"], one["content"]) for one in bodies] == [("assistant", "a"), ("user", "bc")]


def test_cut_off_missing_and_infinite(tmp_path):
    def change(records):
        records[0] |= {"is_cut_off": True, "rewards": [float("nan")], "token_weights": None}
        records[0]["answer_logps"][0][0] = float("-inf")
        return records

    write_run(tmp_path, steps=[0], change=change, source="evaluation")
    cut, whole, *_ = episodes(tmp_path / "beliefs", tmp_path)
    assert cut["run"] == {"type": "eval", "id": "mine"}
    [trace] = cut["traces"]
    assert trace["rewards"] == {"accuracy": None} and "advantages" not in trace["nodes"][1]
    assert trace["info"]["barl"]["answer_logps"][0][0] is None
    reasons = [one["traces"][0]["calls"][-1]["finish_reason"] for one in (cut, whole)]
    assert reasons == ["length", "stop"]


def test_an_earlier_export_is_replaced_and_a_file_of_others_is_not(tmp_path, monkeypatch):
    write_run(tmp_path, steps=[0])
    monkeypatch.setattr(sys, "argv", ["", str(tmp_path), "--output", str(tmp_path)])
    for _ in range(2):
        runpy.run_path(str(ROOT / "examples" / "verifiers_traces.py"), run_name="__main__")
        assert len((tmp_path / TRACES).read_text().splitlines()) == 12
    (tmp_path / TRACES).write_text('{"id": "theirs"}\n')
    with pytest.raises(ValueError, match=r"traces\.jsonl of others"):
        write_verifiers(tmp_path / "beliefs", tmp_path, "mine")
