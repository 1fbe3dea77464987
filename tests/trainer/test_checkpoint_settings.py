"""A run that goes on with other settings than its checkpoint's says so, or is refused."""

import json
import logging
import shutil

import pytest
from peft import LoraConfig

from barl_trl.trainer.checkpoints.files import SETTINGS
from barl_trl.trainer.checkpoints.settings import changed_settings, settings_of

from ..tiny import tiny_model, tiny_tokenizer
from .rollouts import PROBLEMS, config, trainer


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    """A checkpoint after one step of two."""
    tokenizer = tiny_tokenizer()
    model = tiny_model(tokenizer)
    folder = tmp_path_factory.mktemp("trained")
    args = config(folder, max_steps=1, save_strategy="steps", save_steps=1, hub_token="hf_secret")
    trainer(model, tokenizer, args).train()
    return folder / "checkpoint-1"


@pytest.fixture
def resume(checkpoint, tmp_path, model, tokenizer, caplog):
    """Resumes a copy of the checkpoint with other settings; returns what is said of them."""

    def run(*, without=None, rows=PROBLEMS, cls_settings=None, **settings):
        copy = shutil.copytree(checkpoint, tmp_path / "out" / "checkpoint-1", dirs_exist_ok=True)
        if without:
            (copy / without).unlink()
        args = config(tmp_path / "out", **{"max_steps": 2} | settings)
        made = trainer(model, tokenizer, args, rows=rows, **cls_settings or {})
        caplog.clear()
        with caplog.at_level(logging.WARNING):
            made.train(resume_from_checkpoint=str(copy))
        run.log = made.state.log_history
        return [line for line in caplog.messages if "trained with" in line or "has no" in line]

    return run


def test_no_secret_and_no_place_is_kept(checkpoint):
    text = (checkpoint / SETTINGS).read_text()
    saved = json.loads(text)
    assert "hf_secret" not in text and "output_dir" not in saved and "logging_steps" not in saved
    assert (saved["method"], saved["seed"], saved["credit"]) == ("BARL", 42, "barl")
    assert saved["data set"].startswith(f"{len(PROBLEMS)} rows (")


def test_the_same_settings_are_not_spoken_of(resume):
    assert resume(max_steps=1) == []


def test_one_line_names_every_difference(resume):
    [line] = resume(learning_rate=2e-6, temperature=0.5, credit="rloo", logging_steps=2)
    assert "was trained with other settings: " in line
    assert "max_steps 1 -> 2" in line
    assert "learning_rate 1e-06 -> 2e-06" in line
    assert "temperature 1.0 -> 0.5" in line and "credit barl -> rloo" in line
    assert "logging_steps" not in line
    # transformers loads the optimizer's and the scheduler's state
    assert line.endswith(". learning_rate stays the checkpoint's.")
    rates = [entry["learning_rate"] for entry in resume.log if "learning_rate" in entry]
    assert max(rates) <= 1e-6


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"seed": 1}, "seed 42 -> 1"),
        ({"num_generations": 8}, "num_generations 4 -> 8"),
        ({"num_iterations": 2}, "num_iterations 1 -> 2"),
        ({"rows": PROBLEMS[::-1]}, f"data set {len(PROBLEMS)} rows ("),
    ],
)
def test_what_makes_it_inexact_is_refused_unless_it_is_meant(resume, settings, said):
    with pytest.raises(ValueError, match=r"^[^\n]*say with --allow_inexact_resume true") as raised:
        resume(**settings)
    assert said in str(raised.value)
    [line] = resume(**settings, allow_inexact_resume=True)
    assert said in line


def test_an_adapter_that_the_checkpoint_lacks_is_refused_whatever_is_meant(resume):
    adapter = {"peft_config": LoraConfig(r=2, target_modules=["q_proj"], task_type="CAUSAL_LM")}
    with pytest.raises(ValueError, match=r"model must be of the kind .* got adapter None -> LORA"):
        resume(cls_settings=adapter, allow_inexact_resume=True)


def test_another_optimizer_is_refused_while_there_is_a_state_of_the_old(resume):
    """transformers died of a KeyError."""
    with pytest.raises(
        ValueError, match=r"optim must be .* got adamw\w* -> adafactor: .* delete \S+/optimizer.pt"
    ):
        resume(optim="adafactor", allow_inexact_resume=True)
    said = resume(optim="adafactor", without="optimizer.pt")
    assert [line for line in said if "optim adamw_torch_fused -> adafactor" in line]
    assert resume(optim="adamw_torch")  # has the same state


def test_of_settings_within_one_the_different_are_named(tmp_path):
    (tmp_path / SETTINGS).write_text(
        json.dumps({"kwargs": {"first": "x" * 80, "dtype": "float32", "gone": 1}})
    )
    now = {"kwargs": {"first": "x" * 80, "dtype": "bfloat16"}}
    old = "{'dtype': 'float32', 'gone': 1}"
    expected = f"{old} -> {{'dtype': 'bfloat16', 'gone': None}}"
    assert changed_settings(tmp_path, now) == {"kwargs": expected}


def test_a_checkpoint_without_settings_is_resumed_and_said_to_lack_them(resume):
    [line] = resume(without=SETTINGS)
    assert f"has no {SETTINGS}: other settings" in line


def test_settings_that_one_of_both_lacks_are_no_difference(tmp_path):
    (tmp_path / SETTINGS).write_text('{"seed": 1, "of an older version": 2}')
    told = settings_of(config(tmp_path), method="BARL")
    assert changed_settings(tmp_path, told) == {"seed": "1 -> 42"}
    assert changed_settings(tmp_path / "nowhere", told) == {}
