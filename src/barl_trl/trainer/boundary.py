"""The boundary between training and the code that users give: tools, environments, rewards.

What they do neither ends the process nor changes its folder. What they return becomes text that any
tokenizer, file and console takes.
"""

import asyncio
import json
import os
from collections.abc import Callable, Iterator, Mapping, MappingView, Sequence, Set
from contextlib import chdir, contextmanager, suppress
from copy import deepcopy
from dataclasses import fields, is_dataclass
from functools import partial, wraps
from inspect import isawaitable
from itertools import islice
from traceback import walk_tb
from typing import Any

import numpy as np
from trl.trainer.utils import is_async_callable

NO_TOOLS = ("reset", "get_reward", "get_turn_rewards", "turn_rewards")
NO_TOOLS += ("hypotheses", "prior", "solution")
"""Methods of environments that the model cannot call."""
_NOT_USERS = ("trl", "barl_trl", "torch", "contextlib", "asyncio")


def guarded(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that does the same, but neither ends the process nor changes its folder.

    `sys.exit()`, and whatever else is no `Exception`, becomes a `RuntimeError` that names the
    user's function. Coroutine functions stay such. Ctrl-C goes on.
    """
    if not is_async_callable(function):
        return _boundary(KeyboardInterrupt, Exception)(function)

    @wraps(function)
    async def called(*args: Any, **kwargs: Any) -> Any:
        # GeneratorExit closes it; no Ctrl-C comes to the loop's thread, which must not end
        with _boundary(GeneratorExit, Exception):
            return await function(*args, **kwargs)

    return called


@contextmanager
def _boundary(*passing: type[BaseException], most: int = 10_000) -> Iterator[None]:
    try:
        with chdir(os.curdir):
            yield
    except passing:
        raise
    except BaseException as error:
        text = str(error) or repr(error)
        if not isinstance(error, Exception):
            codes = [
                frame.f_code.co_qualname
                for frame, _ in walk_tb(error.__traceback__)
                if frame.f_globals.get("__name__", "").split(".")[0] not in _NOT_USERS
            ]
            text = f"{' > '.join(codes)} must not end the process, got {type(error).__name__}"
            text += f"({error}): let it return, or raise an Exception."
        raise RuntimeError(_cut(text, most)) from error


def guard_tools(trainer: Any) -> None:
    """Let TRL's loop call the tools of a rollout batch through the boundary.

    A call that raises is a failed call, `SystemExit` included. Results are texts of at most
    `max_result_chars` characters. They stand in the order of the calls, which are made one after
    another: TRL would call a turn's coroutine functions behind the others. Behind a call that ends
    the episode, the turn's other calls fail.
    """
    over: set[int] = set()
    pairs = zip(trainer._sync_tool_dicts, trainer._async_tool_dicts, strict=True)
    for n, (tools, coroutines) in enumerate(pairs):
        called = {name: tool for name, tool in (coroutines | tools).items() if not _is_hidden(tool)}
        tools.clear()
        tools |= {name: _tool(trainer, tool, n, over) for name, tool in called.items()}
        coroutines.clear()


class _LastResult(str):
    """What the call that ended a rollout returned. `str` leaves it as it is, for TRL's messages."""

    place: int
    """Number of the rollout among this process's."""

    def __str__(self) -> str:
        return self


def ends_episode(tool: Callable[..., Any]) -> Callable[..., Any]:
    """Mark a tool, or an environment's method, as one whose call ends the rollout.

    The model takes no turn behind it, and does not read its result. A call that raises ends
    nothing. An environment may also end the rollout by its attribute `done`.

    Example:
        >>> @ends_episode
        ... def submit(answer: str) -> str:
        ...     return "Thank you."
    """
    tool.ends_episode = True  # type: ignore[attr-defined]
    return tool


def ended_by(messages: Sequence[Mapping[str, Any]]) -> int | None:
    """Return the number of the rollout that results of tools ended; None if they ended none."""
    ends = (one["content"].place for one in messages if isinstance(one["content"], _LastResult))
    return next(ends, None)


def hide_methods(trainer: Any) -> None:
    """Take those of the environments' methods that are no tools out of TRL's lists of tools."""
    for tools in [trainer.tools, *vars(trainer).get("_env_tools", {}).values()]:
        tools[:] = [tool for tool in tools if not _is_hidden(tool)]


def _is_hidden(tool: Any) -> bool:
    return hasattr(getattr(tool, "__self__", None), "reset") and tool.__name__ in NO_TOOLS


def _tool(trainer: Any, tool: Any, place: int, over: set[int]) -> Callable[..., Any]:
    most = trainer.args.max_result_chars

    async def awaited(result: Any) -> Any:
        with _boundary(GeneratorExit, most=most):
            return await result

    @wraps(tool)  # TRL names it where the model gives no mapping of arguments
    def called(**arguments: Any) -> Any:
        with _boundary(KeyboardInterrupt, most=most):
            if place in over:
                raise RuntimeError("the episode has ended, so that this call was not made.")
            result = tool(**deepcopy(arguments))  # the messages keep what was said
            if isawaitable(result):
                loop, later = vars(trainer).get("async_loop"), awaited(result)
                # without a loop TRL took the tool for a function
                waits = loop and asyncio.run_coroutine_threadsafe(later, loop)
                result = waits.result() if waits else asyncio.run(later)
            if isinstance(result, list) and any(_kind(part) == "image" for part in result):
                return result  # it is refused with all of them
            result: Any = heard(trainer, result, tool.__name__)
            done = getattr(trainer.environments[place], "done", 0) if trainer.environments else 0
            if getattr(tool, "ends_episode", False) or (done and not callable(done)):
                over.add(place)
                result = _LastResult(result)
                result.place = place
            return result

    return called


def heard(trainer: Any, result: Any, name: str) -> str:
    """Return what a tool or an environment of this name returned as the text that a model reads."""
    most = trainer.args.max_result_chars
    text = _text(result, most)
    said = f"a result of {name} is longer than max_result_chars={most} and is cut."
    trainer._say_once(("result", name), said if len(text) > most else None)
    return readable(_cut(text, most))


def _cut(text: str, most: int) -> str:
    note = f"\n[cut: the first of {len(text)} characters]"
    return text if len(text) <= most else text[: max(most - len(note), 0)] + note


def _text(value: Any, most: int) -> str:
    """Return a value as text: JSON for lists and objects, else what `str` makes of it."""
    if not isinstance(value, str | np.generic):
        value = _joined(_plain(value, most))
    if isinstance(value, list | dict):
        with suppress(TypeError, ValueError):  # keys that JSON has not, a list in itself
            return json.dumps(value, ensure_ascii=False, default=partial(_plain, most=most))
    return str(value)


def _plain(value: Any, most: int) -> Any:
    """Return containers as lists and dictionaries, bytes and other objects as text."""
    if isinstance(value, bytes | bytearray):
        return value.decode("utf-8", "replace")
    if is_dataclass(value) and type(value).__str__ is object.__str__:
        return {field.name: getattr(value, field.name) for field in fields(value)}
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Set) and not isinstance(value, MappingView):
        return sorted(value, key=str)  # in an order that does not change from run to run
    if isinstance(value, Sequence | MappingView | Iterator):
        items: Any = value
        return [*islice(items, most)]  # it may have no end
    tolist = getattr(value, "tolist", None)
    return tolist() if callable(tolist) else str(value)


def _joined(content: Any) -> Any:
    """Return the parts of a message's content as one text, if all are texts."""
    if not isinstance(content, list) or not content or any(_kind(one) != "text" for one in content):
        return content
    return "".join(str(part.get("text") or "") for part in content)


def _kind(part: Any) -> Any:
    return part.get("type") if isinstance(part, dict) else None


def readable(value: Any) -> Any:
    r"""Return a text, or all texts in lists and dictionaries, as tokenizers and files take them.

    A half of a surrogate pair, which JSON may escape, becomes U+FFFD. A message's list of text
    parts becomes one text: chat templates of text models write nothing for it, or Python.

    Example:
        >>> ascii(readable([{"role": "tool", "content": [{"type": "text", "text": "\ud83d"}]}]))
        "[{'role': 'tool', 'content': '\\ufffd'}]"
    """
    if isinstance(value, str):
        if value.isascii():
            return value
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, list):
        return [*map(readable, value)]
    if isinstance(value, dict):
        value = value | {"content": _joined(value["content"])} if "content" in value else value
        return {readable(key): readable(one) for key, one in value.items()}
    return value
