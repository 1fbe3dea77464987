"""The boundary between training and the code that users give it: tools, environments, rewards.

What they do ends no process and leaves no other working folder behind; what they return becomes
text that any tokenizer, file and console takes.
"""

import asyncio
import inspect
import json
import os
from collections.abc import Callable, Iterator, Mapping, MappingView, Sequence, Set
from concurrent.futures import Future, wait
from contextlib import contextmanager, suppress
from copy import deepcopy
from dataclasses import fields, is_dataclass
from functools import partial, wraps
from itertools import islice
from traceback import walk_tb
from typing import Any

import numpy as np
from accelerate.utils import gather_object
from trl.trainer.utils import is_async_callable

NO_IMAGES = (
    "tools must return texts, got an image: BARLTrainer is text-only. Return a description, or "
    "train with trl.GRPOTrainer."
)
_INTERRUPTIONS = (KeyboardInterrupt, GeneratorExit)
_OURS = ("trl", "barl_trl")
_BETWEEN = ("torch", "contextlib", "functools", "asyncio", "concurrent")
"""Packages that call others' functions, between ours and the user's."""


def guarded(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that does the same, but neither ends the process nor leaves its folder.

    Of `sys.exit()`, and of whatever else is no `Exception`, it makes a `RuntimeError` that names
    the user's function. Coroutine functions stay such. An interruption (Ctrl-C) goes on.
    """
    if not is_async_callable(function):
        return _boundary(_INTERRUPTIONS)(function)

    @wraps(function)
    async def called(*args: Any, **kwargs: Any) -> Any:
        with _boundary((GeneratorExit,)):  # the loop's thread gets no Ctrl-C, and must not end
            return await function(*args, **kwargs)

    return called


@contextmanager
def _boundary(passing: tuple[type[BaseException], ...]) -> Iterator[None]:
    with _same_folder():
        try:
            yield
        except (Exception, *passing):
            raise
        except BaseException as error:
            raise RuntimeError(
                f"{_raiser(error)} must not end the process, got {type(error).__name__}: "
                f"{error}. Let it return, or raise an exception."
            ) from error


@contextmanager
def _same_folder() -> Iterator[None]:
    folder = None
    with suppress(OSError):  # it was deleted
        folder = os.getcwd()
    try:
        yield
    finally:
        if folder is not None:
            with suppress(OSError):
                os.chdir(folder)


def _raiser(error: BaseException) -> str:
    """Return the name of the user's function that raised an error: the first that is not ours."""
    frames = [frame for frame, _ in walk_tb(error.__traceback__)]
    packages = [frame.f_globals.get("__name__", "").partition(".")[0] for frame in frames]
    ours = [n for n, package in enumerate(packages) if package in _OURS]
    pairs = [*zip(packages, frames, strict=True)][max(ours, default=-1) + 1 :]
    others = [frame for package, frame in pairs if package not in _BETWEEN] or frames[-1:]
    return others[0].f_code.co_qualname


# tools


class _FailedCallError(Exception):
    """Tells TRL that a call failed, with the text of its result."""


@contextmanager
def guarded_tools(trainer: Any) -> Iterator[None]:
    """Let TRL's loop call the tools of a rollout batch through the boundary, inside this context.

    A call that raises is a failed call, `SystemExit` included. Results are texts of at most
    `max_result_chars` characters, in the order of the calls: TRL would run a turn's coroutines
    behind its functions. Now a function waits for the coroutines before it, which overlap.
    """
    dicts = (trainer._sync_tool_dicts, trainer._async_tool_dicts) if trainer.tools else ([], [])
    failed_later: list[str] = []
    for tools, coroutines in zip(*dicts, strict=True):
        running: list[Future[Any]] = []
        for name, tool in (coroutines | tools).items():
            tools[name] = _called(trainer, tool, running, failed_later)
        coroutines.clear()
    yield
    if trainer.tools and "async_loop" in vars(trainer):  # TRL has counted the others
        metrics = trainer._metrics["train" if trainer.model.training else "eval"]
        calls = metrics["tools/call_frequency"][-1] * len(gather_object(dicts[0]))
        failed = len(gather_object(failed_later))
        metrics["tools/failure_frequency"][-1] += failed / max(calls, 1)


class _Later:
    """The result of a coroutine, whose text TRL asks for once all calls of the turn have begun."""

    def __init__(self, future: "Future[Any]", failed: list[str]):
        self._future, self._failed = future, failed

    def __str__(self) -> str:
        try:
            result = self._future.result()
        except _FailedCallError as error:
            self._failed.append(str(error))
            return str({"error": str(error)})  # as TRL writes it
        if isinstance(result, list):
            raise ValueError(NO_IMAGES)
        return result


def _called(
    trainer: Any, tool: Any, running: list["Future[Any]"], failed_later: list[str]
) -> Callable[..., Any]:
    most = trainer.args.max_result_chars
    said = partial(_said, trainer, tool.__name__, most)

    @wraps(tool)  # a call with other arguments has the tool's name in its error
    def called(**arguments: Any) -> Any:
        if not inspect.iscoroutinefunction(tool):
            wait(running)
            running.clear()
        with _same_folder(), _failing(_INTERRUPTIONS, most):
            result = tool(**deepcopy(arguments))  # the messages keep what was said
            if not inspect.isawaitable(result):
                return said(result)
        loop = vars(trainer).get("async_loop")
        if loop is None:  # TRL saw no coroutine function, but one is called
            return asyncio.run(_awaited(result, said, most))
        running.append(asyncio.run_coroutine_threadsafe(_awaited(result, said, most), loop))
        return _Later(running[-1], failed_later)

    return called


async def _awaited(result: Any, said: Callable[[Any], Any], most: int) -> Any:
    with _same_folder(), _failing((GeneratorExit,), most):
        return said(await result)


@contextmanager
def _failing(passing: tuple[type[BaseException], ...], most: int) -> Iterator[None]:
    """Make an exception that TRL takes for a failed call of whatever is raised."""
    try:
        yield
    except passing:
        raise
    except BaseException as error:
        kind, text = type(error).__name__, ""
        with suppress(Exception):  # an error's text is the user's code, too
            text = str(error)
        text = text if isinstance(error, Exception) else f"{kind}: {text}"
        raise _FailedCallError(_cut(text, most)) from error


def _said(trainer: Any, name: str, most: int, result: Any) -> Any:
    """Return the text of a tool's result, which has an end; a list that holds an image as it is."""
    if isinstance(result, list) and any(_kind(part) == "image" for part in result):
        return result
    text = _text(result, most)
    if len(text) > most:
        trainer._say_once(
            ("result", name),
            f"{name} returned {len(text)} characters: results of tools are cut at "
            f"max_result_chars={most}.",
        )
    return readable(_cut(text, most))


def _cut(text: str, most: int) -> str:
    if len(text) <= most:
        return text
    note = f"\n[cut: the first of {len(text)} characters]"
    return text[: max(most - len(note), 0)] + note


def _kind(part: Any) -> Any:
    return part.get("type") if isinstance(part, dict) else None


# text


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
    if value is None or isinstance(value, str | bool | int | float):
        return value
    if isinstance(value, bytes | bytearray):
        return value.decode("utf-8", "replace")
    if is_dataclass(value) and type(value).__str__ is object.__str__:
        return {field.name: getattr(value, field.name) for field in fields(value)}
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Set) and not isinstance(value, MappingView):
        return sorted(value, key=str)  # in an order that does not change from run to run
    if isinstance(value, Sequence | MappingView | Iterator):
        return [*islice(value, most)]  # it may have no end
    return value.tolist() if hasattr(value, "tolist") else str(value)


def _joined(content: Any) -> Any:
    """Return text parts, the content of a message, as one text, and anything else as it is."""
    if not isinstance(content, list) or not content or any(_kind(one) != "text" for one in content):
        return content
    return "".join(str(part.get("text") or "") for part in content)


def readable(value: Any) -> Any:
    r"""Return a text, or all texts in lists and dictionaries, as tokenizers and files take them.

    A half of a surrogate pair, which JSON may escape, becomes U+FFFD. A message's list of text
    parts becomes one text: the chat templates of text models write nothing for it, or Python.

    Example:
        >>> ascii(readable([{"role": "tool", "content": [{"type": "text", "text": "\ud83d"}]}]))
        "[{'role': 'tool', 'content': '\\ufffd'}]"
    """
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, list):
        return [*map(readable, value)]
    if isinstance(value, dict):
        return {
            readable(key): readable(_joined(one) if key == "content" else one)
            for key, one in value.items()
        }
    return value
