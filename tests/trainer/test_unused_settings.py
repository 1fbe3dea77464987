"""Settings that change nothing are named."""

from functools import partial

import pytest

from barl_trl.trainer.methods import make_trainer

from .rollouts import config, trainer


@pytest.mark.parametrize(
    ("method", "unused"),
    [
        ("barl", None),
        ("progress", "credit='progress' does not use consistency_beta=2.0."),
        ("rloo", "credit='rloo' does not use consistency_beta=2.0, elicitation='So'."),
        ("grpo", "method='grpo' does not use step_size=8, elicitation='So', consistency_beta=2.0."),
    ],
)
def test_settings_that_change_nothing_are_named(model, tokenizer, tmp_path, caplog, method, unused):
    args = config(tmp_path, consistency_beta=2.0, elicitation="So")
    trainer(model, tokenizer, args, cls=partial(make_trainer, method))
    said = [r.getMessage() for r in caplog.records if "does not use" in r.getMessage()]
    assert said == ([unused] if unused else [])
