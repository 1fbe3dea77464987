"""Once any process is asked to, all save a checkpoint at the end of the step, and stop."""

import pytest

from barl_trl.trainer.save_on_interrupt import SaveOnInterrupt

from .rollouts import config, trainer


@pytest.mark.parametrize("asked", [True, False])
def test_training_stops_with_a_checkpoint_if_asked(tmp_path, model, tokenizer, asked):
    run = trainer(model, tokenizer, config(tmp_path, max_steps=2))
    callback = SaveOnInterrupt(run.accelerator)
    run.add_callback(callback)
    if asked:
        callback.ask()
    run.train()
    assert callback.has_stopped == asked
    assert run.state.global_step == (1 if asked else 2)
    assert [path.name for path in tmp_path.glob("checkpoint-*")] == ["checkpoint-1"] * asked
