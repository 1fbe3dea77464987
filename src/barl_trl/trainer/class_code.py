"""What the methods of a class take, use, set and return, without running them."""

import ast
import inspect
import linecache
from collections.abc import Collection, Iterable, Iterator
from dis import opmap
from itertools import takewhile
from types import CodeType, FunctionType


class ClassCode:
    """Read the methods of a class and of its parents, up to those of transformers.

    Almost all is in the compiled code, which takes microseconds; a source is parsed for what a
    method returns.

    Args:
        owner: The class.
    """

    def __init__(self, owner: type):
        self.owner = owner
        self._codes: dict[str, CodeType] = {}
        mro = takewhile(lambda cls: not cls.__module__.startswith("transformers."), owner.mro())
        for name, value in (item for cls in mro for item in vars(cls).items()):
            function = inspect.unwrap(value) if callable(value) else value
            if isinstance(function, FunctionType):
                self._codes.setdefault(name, function.__code__)

    def has(self, method: str) -> bool:
        """Say whether the class has a method, be it a parent's."""
        return callable(getattr(self.owner, method, None))

    def parameters(self, method: str) -> list[inspect.Parameter]:
        """Return the parameters of a method without `self`."""
        signature = inspect.signature(getattr(self.owner, method))
        return list(signature.parameters.values())[1:]

    def names(self, method: str, *, apart: Collection[str] = ()) -> Iterator[str]:
        """Yield the names of attributes and globals that a method uses, in order of first use.

        Its texts follow. Behind the name of another method stands what that one uses, unless
        it is one of those `apart`. One of transformers' uses nothing.
        """
        code = self._codes.get(method)
        for name in code.co_names if code else ():
            yield name
            if name in self._codes and name not in apart:
                yield from self.names(name, apart={*apart, name})
        yield from map(repr, _texts(code.co_consts if code else ()))

    def unset(self, attributes: Iterable[str]) -> list[str]:
        """Return those of the attributes that neither the class nor one of its methods sets."""
        missing = [name for name in attributes if not hasattr(self.owner, name)]
        for code in self._codes.values():
            if not set(missing).isdisjoint(code.co_names):
                stored = set(_stored(code))
                missing = [name for name in missing if name not in stored]
        return missing

    def returned(self, method: str) -> list[str] | None:
        """Return what the last `return` of a method names, such as `["ids", "mask"]`.

        None: the source is not there, or it is not known where it ends (`-X no_debug_ranges`).
        """
        code = self._codes.get(method)
        try:
            tree = ast.walk(ast.parse(_source(code) if code else ""))
        except SyntaxError:
            return None
        function = next((node for node in tree if isinstance(node, ast.FunctionDef)), None)
        if function is None:
            return None
        *_, value = [None, *_returned(function)]
        parts = value.elts if isinstance(value, ast.Tuple) else [value] if value else []
        return [ast.unparse(part) for part in parts]


def _source(code: CodeType) -> str:
    # `inspect.getsource` looks for the end by tokens, which takes several times as long
    last = max(end or start or 0 for start, end, *_ in code.co_positions())
    text = "".join(linecache.getlines(code.co_filename)[code.co_firstlineno - 1 : last])
    return f"if True:\n{text}" if text.startswith(" ") else text


def _returned(node: ast.AST) -> Iterator[ast.expr | None]:
    """Yield what the `return` statements below a node return, in their order."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Return):
            yield child.value
        elif not isinstance(child, ast.expr | ast.FunctionDef):
            yield from _returned(child)


def _texts(constants: Iterable[object]) -> Iterator[str]:
    for constant in constants:
        if isinstance(constant, tuple):
            yield from _texts(constant)
        elif isinstance(constant, str):
            yield constant


def _stored(code: CodeType) -> Iterator[str]:
    """Yield the names of the attributes that are set."""
    extended = 0
    for operation, argument in zip(code.co_code[::2], code.co_code[1::2], strict=True):
        argument |= extended
        extended = argument << 8 if operation == opmap["EXTENDED_ARG"] else 0
        if operation == opmap["STORE_ATTR"]:
            yield code.co_names[argument]
