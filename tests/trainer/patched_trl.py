"""`GRPOTrainer` from a copy of TRL in which something is changed."""

import ast
import re
from pathlib import Path

from transformers import Trainer
from trl import GRPOTrainer
from trl.trainer import base_trainer, grpo_trainer


def _methods():
    for module, name in ((base_trainer, "_BaseTrainer"), (grpo_trainer, "GRPOTrainer")):
        text = Path(module.__file__).read_text()
        lines = text.splitlines(keepends=True)
        (cls,) = [node for node in ast.parse(text).body if getattr(node, "name", None) == name]
        for node in cls.body:
            if isinstance(node, ast.FunctionDef):
                body = node.body[0].lineno
                head = "".join(lines[node.lineno - 1 : body - 1])
                yield node.name, (module, head, "".join(lines[body - 1 : node.end_lineno]))


METHODS = dict(_methods())
"""Method of TRL's -> its module, the lines of its signature, and those below."""


def source(method):
    _, head, body = METHODS[method]
    return head + body


def with_parameters(method, parameters):
    """The source of a method with other parameters; of transformers', one that TRL overrides."""
    _, _, body = METHODS.get(method, (None, None, "        pass\n"))
    return f"    def {method}({', '.join(['self', *parameters])}):\n{body}"


def renamed(text, *names):
    return re.sub(rf"\b({'|'.join(names)})\b", r"\1_new", text)


def swapped(text, one, other):
    pairs = {one: other, other: one}
    return re.sub(rf"\b({one}|{other})\b", lambda found: pairs[found[0]], text)


def patched_trainer(folder, sources):
    """`GRPOTrainer` with other sources of some of its methods, or its base class's."""
    made = {}
    for method, text in sources.items():
        file = folder / f"{method}.py"
        file.write_text(f"class Patched(_BaseTrainer):\n{text}")
        namespace = {**vars(base_trainer), **vars(grpo_trainer)}
        exec(compile(file.read_text(), str(file), "exec"), namespace)
        made |= {k: v for k, v in vars(namespace["Patched"]).items() if callable(v)}
    apart = {"__dict__", "__weakref__", *sources}
    base, own = (
        {name: value for name, value in vars(cls).items() if name not in apart}
        for cls in (base_trainer._BaseTrainer, GRPOTrainer)
    )
    return type("GRPOTrainer", (type("_BaseTrainer", (Trainer,), base),), own | made)
