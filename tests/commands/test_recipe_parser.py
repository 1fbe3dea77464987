"""Mistakes in a recipe are said by its line."""

import pytest

from barl_trl import cli

FIRST = {
    "train": "dataset_name: x",
    "plan": "dataset_name: x",
    "demo": "max_steps: 1",
    "evaluate": "model: x\nbenchmarks: gsm8k",
}
"""Commands that take recipes, and what one must have."""


@pytest.fixture
def said(tmp_path, monkeypatch, capsys):
    """Runs a command on a recipe; returns the line that it ends with."""

    def run(command, text=None):
        monkeypatch.chdir(tmp_path)
        if text is not None:
            (tmp_path / "r.yaml").write_bytes(text.encode() if isinstance(text, str) else text)
        with pytest.raises(SystemExit) as stop:
            cli.main([command, "--config", "r.yaml"])
        assert stop.value.code == 2
        (line,) = capsys.readouterr().err.splitlines()
        return line.removeprefix(f"barl {command}: ")

    return run


@pytest.mark.parametrize("command", FIRST)
def test_mistakes_in_recipes(command, said):
    first = FIRST[command]
    number, name = first.count("\n") + 2, "max_tokens" if command == "evaluate" else "step_size"
    place = f"r.yaml, line {number}: "
    missing = (
        "--config must be a YAML file or a shipped name, got r.yaml: `barl recipes` lists them."
    )
    assert said(command) == missing
    wrong = name.replace("_", "")
    near = f"{place}unknown option {wrong}: did you mean {name}?"
    assert said(command, f"{first}\n{wrong}: 3\n") == near
    assert said(command, f"{first}\nqqqzzz: hf_canary\n").startswith(
        f"{place}unknown option qqqzzz: "
    )
    kind = f"{place}{name} must be a whole number, got"
    assert said(command, f"{first}\n{name}: many\n") == f"{kind} 'many'."
    assert said(command, f"{first}\n{name}: [3]\n") == f"{kind} [3]."
    assert said(command, f"{first}\n{name}: [1\n").startswith("r.yaml, line ")
    again = f"{first}\n{name}: 3\n{name}: 4\n"
    assert said(command, again) == f"r.yaml, line {number + 1}: {name} is in line {number} already."


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "r.yaml must hold options as `name: value`, got NoneType."),
        ("- a", "r.yaml must hold options as `name: value`, got list."),
        ("dataset_name:\n", "r.yaml, line 1: dataset_name must be set, got None."),
        ("dataset_name: x\non: 3\n", "r.yaml, line 1: unknown option True: "),
        ("dataset_name: x\na: b: c\n", "r.yaml, line 2: this is no YAML: mapping values are not"),
        ("dataset_name: x\nbf16: maybe\n", "r.yaml, line 2: bf16 must be true or false, got 'may"),
        ("dataset_name: x\nmax_steps: 1.5\n", "r.yaml, line 2: max_steps must be a whole number"),
        ("a: \x00", "r.yaml: this is no YAML: "),
        (b"\xff\xfe\xfa", "--config must be a YAML file, got r.yaml (it is no text)."),
    ],
)
def test_recipes_that_are_none(said, text, message):
    assert said("train", text).startswith(message)


def test_the_file_may_follow_an_equals_sign(tmp_path, capsys):
    with pytest.raises(SystemExit):
        cli.main(["train", f"--config={tmp_path}/r.yaml"])
    assert (
        f"--config must be a YAML file or a shipped name, got {tmp_path}/r.yaml"
        in capsys.readouterr().err
    )


def test_a_file_must_follow(capsys):
    with pytest.raises(SystemExit):
        cli.main(["evaluate", "--config", "--model", "x"])
    assert "--config must be followed by a recipe, got nothing." in capsys.readouterr().err
