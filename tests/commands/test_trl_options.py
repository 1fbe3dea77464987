"""TRL's options as its files have them are those that its classes have."""

import pytest
from barl_trl.trainer.barl_fields import barl_fields
from trl import ModelConfig

from barl_trl.commands.shell import trl_options as module
from barl_trl.commands.shell.options import RecipeParser
from barl_trl.commands.shell.trl_options import trl_options
from barl_trl.trainer import BARLConfig

OWN = {known.name for known in barl_fields()}
CHECKED = {"int", "float", "string_to_bool"}


def actions(*kinds):
    parser = RecipeParser(kinds, prog="barl test")
    others = [action for action in parser._actions if action.dest not in OWN | {"help"}]
    return {name: action for action in others for name in action.option_strings}


def test_nothing_that_trl_takes_is_refused_before():
    options = trl_options(["GRPOConfig", "ModelConfig"], but=OWN)
    early, late = actions(options.fields), actions(BARLConfig, ModelConfig)
    assert options.are_all
    assert early.keys() == late.keys()
    for name, action in early.items():
        assert action.nargs == late[name].nargs or action.nargs == "+", name
        assert action.choices is None or set(action.choices) == set(late[name].choices), name
        if action.type is not None and action.type.__name__ in CHECKED:
            assert action.type.__name__ == late[name].type.__name__, name
    assert early["--lr_scheduler_type"].choices and early["--max_steps"].type.__name__ == "int"


@pytest.mark.parametrize("path", ["trl/trainer/moved.py", "no_such_package/config.py"])
def test_where_a_class_is_not_found_options_are_not_all(monkeypatch, path):
    monkeypatch.setitem(module._FILES, "_BaseConfig", path)
    options = trl_options(["GRPOConfig"], but=[])
    assert not options.are_all
    assert "num_generations" in options.fields.__dataclass_fields__
