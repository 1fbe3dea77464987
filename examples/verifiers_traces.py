"""Write the rollouts of a run with `log_beliefs` as traces, which verifiers and prime-rl read.

    python examples/verifiers_traces.py outputs/mine  # writes outputs/mine/inspect/traces.jsonl

The format is that of verifiers 0.4.0 (`verifiers.v1`: `Episode`, `Trace`, `MessageNode`; version 1
of its schema). The package is not needed to write the file.
"""

import argparse
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import compress
from pathlib import Path
from typing import Any, NamedTuple

from barl_trl.trainer.records import FOLDER, SCHEMA, read_file, record_files

TRACES = "traces.jsonl"
"""Name of the file that verifiers reads in the folder of a run."""

_ENV = {"id": "barl-trl"}
"""A line of our file begins with this. Files of others are not overwritten."""

_PLACED = {"prompt", "tokens", "token_ids", "token_logps", "token_weights", "rewards"}
_PLACED |= {"own_tokens", "turn_ends", "observed_tools"}
"""Columns of records that have a place of their own in a trace."""


class _Message(NamedTuple):
    """What the model wrote in a turn, or what others wrote after it."""

    tokens: slice
    """Its tokens in the record."""
    body: dict[str, Any]
    """`role` and `content`; of an assistant who called tools `tool_calls`, as verifiers has them;
    of a tool `tool_call_id` and `name`."""


def messages_of(record: Mapping[str, Any]) -> list[_Message]:
    """Return the messages of a rollout's completion, without its prompt.

    A turn is a message of the assistant. The observation after it is one of a tool, or of the user
    if no tool is named for it. The results of several calls are one message.
    """
    ends = [*(record["turn_ends"] or ()), len(record["tokens"])]
    tools = [*(record["observed_tools"] or ()), []]
    is_own, messages, start = own_tokens(record), list[_Message](), 0
    for turn, (stop, names) in enumerate(zip(ends, tools, strict=True)):
        answered = stop
        while answered > start and not is_own[answered - 1]:
            answered -= 1
        said = "".join(record["tokens"][start:answered])
        seen = "".join(record["tokens"][answered:stop])
        body: dict[str, Any] = {"role": "assistant", "content": said}
        told = {"role": "user", "content": seen}
        if names:
            body["tool_calls"] = [
                {"id": f"call_{turn}_{n}", "type": "function", "name": name, "arguments": arguments}
                for n, (name, arguments) in enumerate(_arguments(said, names))
            ]
            told |= {"role": "tool", "tool_call_id": f"call_{turn}_0", "name": ", ".join(names)}
        parts = _Message(slice(start, answered), body), _Message(slice(answered, stop), told)
        messages += [part for part in parts if part.tokens.start < part.tokens.stop]
        start = stop
    return messages


def _arguments(said: str, names: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield name and arguments of each call, with `""` for arguments that are not understood.

    The records keep only the names of tools. Models write calls in many ways. Read here is the way
    of Qwen and Hermes, `<tool_call>{"name": …, "arguments": {…}}</tool_call>`.
    """
    blocks = [block.partition("</tool_call>")[0] for block in said.split("<tool_call>")[1:]]
    for n, name in enumerate(names):
        try:
            parsed = json.loads(blocks[n]) if len(blocks) == len(names) else None
        except (ValueError, RecursionError):
            parsed = None
        call = parsed if isinstance(parsed, dict) and parsed.get("name") == name else None
        yield name, "" if call is None else json.dumps(call.get("arguments", {}))


def write_verifiers(folder: Path, output: Path, run: str) -> int:
    """Write the records of a run as a file that verifiers read; return the number of rollouts.

    A line is an episode with one trace. The file appears once it is complete.

    Raises:
        ValueError: The folder has such a file that is not ours, or a record cannot be read.
    """
    path, number = output / TRACES, 0
    if path.exists() and not _is_ours(path):
        raise ValueError(
            f"--output must be a new folder or an earlier export, got {output} with a {TRACES} of "
            "others: name another folder."
        )
    output.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    with partial.open("w", encoding="utf-8") as file:
        for _, records_file in record_files(folder):
            metadata, records = read_file(records_file)
            for record in records:
                file.write(_line(_episode(record, metadata, run)) + "\n")
            number += len(records)
    partial.replace(path)
    return number


def own_tokens(record: Mapping[str, Any]) -> list[bool]:
    """Return whether the model wrote each token of a rollout."""
    return [bool(own) for own in record["own_tokens"] or [1] * len(record["tokens"])]


def rounded(value: Any) -> Any:
    """Return numbers as JSON can hold them: None for numbers that are not finite."""
    if isinstance(value, list):
        return [*map(rounded, value)]
    return None if value is None or not math.isfinite(value) else round(value, 6)


def _is_ours(path: Path) -> bool:
    beginning = _line({"env": _ENV})[:-1].encode()
    with path.open("rb") as file:
        return file.read(len(beginning)) in (beginning, b"")


def _line(value: Mapping[str, Any]) -> str:
    return json.dumps(value, allow_nan=False, separators=(",", ":"))


def _episode(record: Mapping[str, Any], metadata: Mapping[str, Any], run: str) -> dict[str, Any]:
    """Return a rollout as an `Episode` of verifiers."""
    places = [str(record[name]) for name in ("step", "group", "rollout")]
    data = {"id": record["prompt_id"], "prompt": record["prompt"], "answer": record["solution"]}
    task = {"type": "barl_trl", "data": data, "key": record["prompt_id"]}
    origin: dict[str, Any] = {"type": "eval", "id": run}
    if metadata.get("source", "training") == "training":
        origin = {"type": "train", "id": run, "work": {"type": "train", "step": record["step"]}}
    longest = metadata.get("max_completion_length", metadata.get("max_tokens"))
    sampling = {"temperature": metadata.get("temperature"), "max_tokens": longest}
    messages = messages_of(record)
    trace = {
        "version": 1,
        "id": "-".join([run, *places]),
        "task": task,
        "agent": {"config": {"model": metadata.get("model"), "sampling": sampling}},
        "nodes": _nodes(record, messages),
        "calls": _calls(record, messages),
        "rewards": {
            name: None if reward is None else {"score": reward, "weight": weight}
            for name, (reward, weight) in _rewards(record, metadata).items()
        },
        "info": {"barl": _info(record, metadata)},
        "is_completed": True,
        "ok": True,
    }
    group = {"id": "-".join([run, *places[:2]])}
    whole = {"id": trace["id"], "task": task, "group": group, "run": origin, "ok": True}
    return {"env": _ENV} | whole | {"traces": [trace]}


def _nodes(record: Mapping[str, Any], messages: Sequence[_Message]) -> list[dict[str, Any]]:
    """Return the prompt and the messages as the chain of `MessageNode`s of a trace.

    `mask` marks the model's tokens, and numbers are those of the model's tokens alone.
    """
    is_own = own_tokens(record)
    nodes: list[dict[str, Any]] = [{"message": {"role": "user", "content": record["prompt"]}}]
    for message in messages:
        is_model = message.body["role"] == "assistant"
        is_models = is_own[message.tokens]
        node = {
            "parent": len(nodes) - 1,
            "message": message.body,
            "sampled": is_model,
            "token_ids": record["token_ids"][message.tokens],
            "mask": is_models,
        }
        columns = {"advantages": "token_weights", "trainer_logprobs": "token_logps"}
        for name, column in columns.items():
            if is_model and record[column] is not None:
                node[name] = rounded([*compress(record[column][message.tokens], is_models)])
        nodes.append(node)
    return nodes


def _calls(record: Mapping[str, Any], messages: Sequence[_Message]) -> list[dict[str, Any]]:
    """Return why the model stopped in each of its turns, as the `ModelCall`s of a trace."""
    turns = [n for n, (_, body) in enumerate(messages) if body["role"] == "assistant"]
    reasons = ["tool_calls" if "tool_calls" in messages[n].body else "stop" for n in turns]
    if reasons and (record["ended_in_call"] or record["is_cut_off"]):
        reasons[-1] = "tool_calls" if record["ended_in_call"] else "length"
    return [
        {"node": n + 1, "finish_reason": reason} for n, reason in zip(turns, reasons, strict=True)
    ]


def _rewards(
    record: Mapping[str, Any], metadata: Mapping[str, Any]
) -> dict[str, tuple[float | None, float]]:
    """Return reward, or None, and weight of each reward function."""
    rewards = rounded(record["rewards"])
    names = metadata.get("reward_names") or [f"reward_{n}" for n in range(len(rewards))]
    weights = metadata.get("reward_weights") or [1.0] * len(rewards)
    return dict(zip(names, zip(rewards, weights, strict=False), strict=False))


def _info(record: Mapping[str, Any], metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return the columns that have no place of their own, without those that are null."""
    info = {"credit": metadata.get("settings", {}).get("credit")}
    for field in SCHEMA:
        if field.name not in _PLACED:
            is_number = "float" in str(field.type)
            info[field.name] = rounded(record[field.name]) if is_number else record[field.name]
    return {name: value for name, value in info.items() if value is not None}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("run", type=Path, help="a run, or a folder of records")
    parser.add_argument("--output", type=Path, help="folder of the file, if not RUN/inspect")
    args = parser.parse_args()
    run, output = args.run.resolve(), args.output or args.run / "inspect"
    records = run / FOLDER if (run / FOLDER).exists() else run
    print(f"{write_verifiers(records, output, run.name):,} rollouts in {output / TRACES}")


if __name__ == "__main__":
    main()
