"""What methods take, use, set and return, against small classes whose answers are seen."""

import functools

import pytest

from barl_trl.trainer.class_code import ClassCode


def timed(method):
    @functools.wraps(method)
    def wrapper(self, *args, **kwargs):
        return method(self, *args, **kwargs)

    return wrapper


class Base:
    kind = "base"

    def __init__(self, settings):
        self.made = settings.given
        self.first, self.second = settings.pair

    def finish(self):
        return self.made


class Trainer(Base):
    @timed
    def step(self, batch, scale=1.0):
        if not batch:
            return None, None
        loss = self.forward(batch)
        self.log("loss", loss)
        return (
            loss,
            scale,
        )

    def forward(self, batch):
        def inner():
            return batch, batch

        self.seen: int = 1
        return self.model(inner()).mean()

    def log(self, name, value):
        self.rows.append({"name": name})

    def nothing(self):
        pass


CODE = ClassCode(Trainer)


def test_parameters_are_those_behind_a_wrapper():
    assert [p.name for p in CODE.parameters("step")] == ["batch", "scale"]
    assert [p.name for p in CODE.parameters("__init__")] == ["settings"]


def test_methods_of_parents_are_there():
    assert [CODE.has(name) for name in ("step", "finish", "kind", "other")] == [
        True,
        True,
        False,
        False,
    ]


def test_names_are_in_the_order_of_their_use_with_those_of_other_methods():
    forward, log = ["forward", "seen", "model", "mean"], ["log", "rows", "append", "'name'"]
    assert list(CODE.names("step")) == [*forward, *log, "'loss'"]


def test_other_methods_can_be_left_apart():
    names = CODE.names("step", apart={"forward", "log"})
    assert list(names) == ["forward", "log", "'loss'"]


def test_a_method_that_calls_itself_ends():
    class Own:
        def walk(self):
            self.walk()
            self.end()

    assert set(ClassCode(Own).names("walk")) == {"walk", "end"}


def test_attributes_are_set_in_any_method_or_on_the_class():
    names = ["made", "first", "second", "seen", "kind", "given", "rows", "model"]
    assert CODE.unset(names) == ["given", "rows", "model"]


def test_more_names_than_a_byte_counts():
    lines = "".join(f"        self.name_{n} = 1\n" for n in range(300))
    namespace = {}
    exec(f"class Many:\n    def __init__(self):\n{lines}", namespace)
    assert ClassCode(namespace["Many"]).unset(["name_7", "name_299", "name_300"]) == ["name_300"]


@pytest.mark.parametrize(
    ("method", "returned"),
    [
        ("step", ["loss", "scale"]),
        ("forward", ["self.model(inner()).mean()"]),
        ("finish", ["self.made"]),
        ("nothing", []),
    ],
)
def test_the_last_return_is_read(method, returned):
    assert CODE.returned(method) == returned


def alone(self):
    return self, 1


def after():
    return 1, 2, 3


def test_a_function_that_was_put_into_the_class_is_read():
    assert ClassCode(type("Patched", (Trainer,), {"step": alone})).returned("step") == ["self", "1"]


def test_a_function_without_source_is_not_read():
    namespace = {}
    exec("def step(self):\n    return 1, 2", namespace)
    patched = type("Patched", (Trainer,), {"step": namespace["step"]})
    assert ClassCode(patched).returned("step") is None
