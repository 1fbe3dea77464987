"""With `sync_ref_model`, too, a resumed run reaches the parameters of an undisturbed one."""

import pytest
import torch

from barl_trl.trainer.checkpoints.files import missing_states

from .test_exact_resume import assert_equal, short_run

SETTINGS = {"beta": 0.5, "sync_ref_model": True, "ref_model_sync_steps": 2}


@pytest.fixture
def run(tmp_path, tokenizer, model_path):
    def run(name, *resume, **settings):
        return short_run(tmp_path / name, model_path, tokenizer, *resume, **SETTINGS | settings)

    return run


def test_the_reference_is_saved_and_restored(tmp_path, run):
    whole = run("whole")
    saved = torch.load(tmp_path / "whole" / "checkpoint-3" / "reference.pt", weights_only=True)
    assert len(saved) == len([*whole.ref_model.parameters()])
    resumed = run("other", str(tmp_path / "whole" / "checkpoint-3"))
    assert_equal(resumed.ref_model, whole.ref_model)
    assert_equal(resumed.model, whole.model)


def test_a_checkpoint_without_it_is_said_to_lack_it(tmp_path, run):
    args = run("whole").args
    checkpoint = tmp_path / "whole" / "checkpoint-3"
    (checkpoint / "reference.pt").unlink()
    expected = "reference*.pt: the reference starts from the original model"
    assert missing_states(str(checkpoint), args) == [expected]
