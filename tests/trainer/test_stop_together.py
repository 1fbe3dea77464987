"""Once any process is asked to, all end at the end of the step, with a checkpoint if wanted."""

import os

import pytest

from .rollouts import config, trainer


@pytest.mark.parametrize(("asked", "is_saved"), [(True, True), (False, True), (False, False)])
def test_training_stops_with_a_checkpoint_if_asked(tmp_path, model, tokenizer, asked, is_saved):
    run = trainer(model, tokenizer, config(tmp_path, max_steps=2))
    run.stop_together.is_saved = is_saved
    if asked:
        run.stop_together.ask()
    run.train()
    assert run.stop_together.has_stopped == asked
    assert run.state.global_step == (1 if asked else 2)
    assert [path.name for path in tmp_path.glob("checkpoint-*")] == ["checkpoint-1"] * asked


@pytest.mark.parametrize("is_saved", [True, False])
def test_a_launched_process_whose_launcher_is_gone_ends(
    tmp_path, model, tokenizer, monkeypatch, is_saved
):
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "none")
    run = trainer(model, tokenizer, config(tmp_path, max_steps=2))
    run.stop_together.is_saved = is_saved
    monkeypatch.setattr(os, "getppid", lambda: 1)  # the kernel's answer where the parent is gone
    with pytest.raises(SystemExit, match="training ended after step 1: what launched this proce"):
        run.train()
    assert [path.name for path in tmp_path.glob("checkpoint-*")] == ["checkpoint-1"] * is_saved
