"""Code that users give: what it returns and raises, and what a model makes of it."""

import asyncio
import io
import os
import sys

import numpy as np
import pyarrow.parquet as pq
import pytest
from trl.chat_template_utils import add_response_schema

from barl_trl.credit.registry import import_path
from barl_trl.trainer.records import read_records

from .playing import agent_tokenizer, call, described, played, speaking
from .test_agents import QUESTION, ROWS, agent


def results(trainer):
    messages = trainer.generated.completions[0]
    return [message["content"] for message in messages if message["role"] == "tool"]


def tool(body, name="give"):
    """A tool of a number with this body, which may be a coroutine function."""

    async def later(key: int):
        return await body(key)

    def give(key: int):
        return body(key)

    made = later if asyncio.iscoroutinefunction(body) else give
    made.__name__ = name
    return described(made)


RESULTS = [
    *[(None, "None"), (True, "True"), (np.float32(0.1), "0.1"), (b"\xff.", "\ufffd."), ([], "[]")],
    *[({"a": (None, "é")}, '{"a": [null, "é"]}'), ({"b", "a"}, '["a", "b"]')],
    *[(np.arange(2), "[0, 1]"), ({(1, 2): 3}, "{(1, 2): 3}")],
    ([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}], "ab"),
    *[("half \ud83d", "half \ufffd"), ("whole \ud83d\ude00", "whole 😀"), ("!" * 999, "")],
]


def test_results_are_texts_that_fit(tmp_path):
    calls = "".join(call("give", key=key) for key in range(len(RESULTS)))
    give, length = tool(lambda key: RESULTS[key][0]), {"max_completion_length": 1500}
    trainer = agent(tmp_path, "qwen3", tools=[give], max_result_chars=99, **length)
    played(trainer, ROWS, [[calls, r"\boxed{12}"]] * 4)
    *texts, cut = results(trainer)
    assert texts == [text for _, text in RESULTS[:-1]] and len(cut) == 99 and "999" in cut
    read = trainer._tokenizer.decode(trainer.generated.completion_ids[0])
    assert all(text in read for text in (*texts, cut))


def test_results_stand_in_the_order_of_calls_whatever_fails(tmp_path):
    """And so do their effects; every failed call counts."""
    seen, folder = [], os.getcwd()

    async def slowly(key):
        seen.append(key)
        await asyncio.sleep(0.05)
        seen.append(-key)
        return sys.exit(0) if key == 2 else key

    def at_once(key):
        seen.append(key)
        os.chdir(tmp_path)
        raise GeneratorExit

    calls = [call("slowly", key=1), call("slowly", key=2), call("at_once", key=3)]
    calls += [call("none", key=4), call("slowly", key=5)]
    tools = [tool(slowly, "slowly"), tool(at_once, "at_once")]
    trainer = agent(tmp_path, tools=tools, max_completion_length=900)
    played(trainer, ROWS, [["".join(calls), r"\boxed{12}"]] * 4)
    assert ["error" in text for text in results(trainer)] == [False, True, True, True, False]
    assert seen[:7] == [1, -1, 2, -2, 3, 5, -5] and os.getcwd() == folder
    assert trainer._metrics["train"]["tools/failure_frequency"] == pytest.approx([3 / 5])


def ends(*args, **kwargs):
    sys.exit(0)


async def ends_later(**kwargs):
    raise KeyboardInterrupt


def environment(**members):
    return {"environment_factory": type("Env", (), {"reset": lambda self, **row: None} | members)}


@pytest.mark.parametrize(
    "arguments",
    [
        *[{"reward_funcs": ends_later}, {"reward_funcs": ends}, {"rollout_func": ends}],
        *[{"step_segmenter": ends}, environment(reset=ends), environment(answer=property(ends))],
        *[environment(__init__=ends), environment(get_reward=ends) | {"reward_funcs": []}],
        {"belief": "task", "credit": "bayes", "observation_likelihood": ends},
    ],
)
def test_code_that_ends_the_process_is_an_error_that_names_it(tmp_path, arguments):
    with pytest.raises(RuntimeError, match=r"\bends"):
        played(agent(tmp_path, **arguments), ROWS, [[r"\boxed{12}"]] * 4)


def test_a_module_that_ends_the_process_cannot_be_imported(tmp_path, monkeypatch):
    (tmp_path / "ending_script.py").write_text("raise SystemExit(0)")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ValueError, match="ending_script"):
        import_path("ending_script.reward", "reward function")


def test_what_a_model_writes_into_calls_is_written_to_tables_and_records(tmp_path, monkeypatch):
    forms = ['{"key": 1}', '{"key": "é \\ud83d"}', '{"key": [{}]}', '{"\\ud83d": NaN}']
    forms += ['{"key": 99999999999999999999}', "{}", "[1]"]
    calls = [f'{{"name": "give", "arguments": {form}}}' for form in forms]
    calls.append(calls[0].replace("give", "\\ud83d"))
    settings = {"log_completions": True, "log_beliefs": True, "value_normalization": "none"}
    trainer = agent(tmp_path, rows=ROWS * 2, tools=[tool(lambda key: key)], **settings)
    plays = [[f"<tool_call>\n{one}\n</tool_call>", r"é \boxed{12}"] for one in calls]
    speaking(trainer.model, trainer._tokenizer, plays)
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BytesIO(), encoding="ascii"))
    trainer.train()
    [path] = (tmp_path / "completions").glob("*.parquet")
    assert "\ufffd" in str(pq.read_table(path).column("completion"))
    tools = [record["observed_tools"][0] for record in read_records(tmp_path / "beliefs")]
    assert tools == [["give"]] * 7 + [["\ufffd"]]


look = tool(lambda key: [key], "look")


@pytest.mark.parametrize("eos", ["<|im_end|>", "<|endoftext|>"], ids=["instruct", "base"])
@pytest.mark.parametrize("family", ["qwen2_5", "qwen3"])
def test_rollouts_are_what_the_template_writes(tmp_path, family, eos):
    """Also those of a base model, whose template ends a turn with another token than its EOS."""
    tokenizer = agent_tokenizer(family)
    tokenizer.eos_token = eos
    trainer = agent(tmp_path, family, tokenizer=tokenizer, tools=[look])
    thought = "<think>\nI think.\n</think>\n\n" * (family == "qwen3")
    turns = [f"{thought}{call('look', key=key)}<|im_end|>…" for key in (1, 2)]
    turns.append(thought + r"\boxed{12}")
    own = [turns[0].replace(" 1", "   1"), turns[2]]  # its own form of a call
    played(trainer, ROWS, [turns, turns, own, turns[2:]])
    assert trainer._metrics["train"]["barl/template_mismatch"] == [0.0]
    generated = trainer.generated
    read = tokenizer.decode(generated.prompt_ids[0] + generated.completion_ids[0][:-1])
    options = {"tools": [look], "chat_template": trainer.chat_template, "tokenize": False}
    shown = tokenizer.apply_chat_template(QUESTION + generated.completions[0], **options)
    assert read == shown.removesuffix("<|im_end|>\n")


def test_a_token_that_stands_twice_is_counted_and_said(tmp_path, caplog):
    """The model ends a call with the token with which the template begins the result."""
    tokenizer = agent_tokenizer("glm4moe")
    tokenizer.add_special_tokens({"eos_token": "<|observation|>"})
    trainer = agent(tmp_path, "glm4moe", tokenizer=tokenizer, tools=[look])
    asks = "\n<think></think>\n<tool_call>look\n<arg_key>key</arg_key>\n<arg_value>1</arg_value>\n"
    played(trainer, ROWS, [[f"{asks}</tool_call>", "12"]] * 2 + [["12"]] * 2)
    assert trainer._metrics["train"]["barl/template_mismatch"] == [1.0]
    assert "<|observation|>" in caplog.text


def test_an_end_that_the_template_alone_writes_twice_is_said(tmp_path, caplog):
    tokenizer = agent_tokenizer("qwen2_5")
    add_response_schema(tokenizer)
    tokenizer.chat_template = tokenizer.chat_template.replace("<|im_end|>", "<|im_end|>" * 2)
    trainer = agent(tmp_path, tokenizer=tokenizer, tools=[look])
    played(trainer, ROWS, [[call("look", key=1), r"\boxed{12}"]] * 4)
    assert trainer._metrics["train"]["barl/template_mismatch"] == [1.0]
    assert "<|im_end|><|im_end|>" in caplog.text
