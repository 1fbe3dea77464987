"""Both sides of an importance ratio come from the same kind of forward, for models of all kinds."""

import pytest
import torch

from barl_trl.trainer.rollouts.old_logps import FIRST_RATIO

from ..plausibility.models import GPT2, REENCODED, make
from ..tiny import tiny_model
from .rollouts import config, trainer

NO_DROPOUT = dict.fromkeys(
    ("resid_pdrop", "embd_pdrop", "attn_pdrop", "resid_dropout", "embed_dropout"), 0.0
) | {"attention_dropout": 0.0}
DYNAMIC = {"rope_type": "dynamic", "factor": 4.0, "rope_theta": 1e4}
UNEQUAL = [("1+1?", "2"), ("What is one half of the number one, as a fraction?", "1/2")]


def made(family, tokenizer):
    special = {"pad_token_id": tokenizer.pad_token_id, "eos_token_id": tokenizer.eos_token_id}
    settings = {"vocab_size": len(tokenizer), "bos_token_id": None, **special}
    if family == "qwen2":
        return tiny_model(tokenizer)
    if family == "dynamic":
        rope = {"max_position_embeddings": 32, "rope_parameters": dict(DYNAMIC)}
        return make("llama", **settings, **rope)
    sizes = GPT2 if family == "gpt2" else REENCODED[family]
    return make(family, **{**settings, **sizes, **NO_DROPOUT})


def stale(tmp_path, **settings):
    """A rollout batch in four steps, in which the weights stay as they are."""
    settings = {"max_steps": 4, "max_completion_length": 16} | settings
    sizes = {"per_device_train_batch_size": 2, "steps_per_generation": 4}
    return config(tmp_path, learning_rate=0.0, **sizes, **settings)


def logs(run):
    run.train()
    return [log for log in run.state.log_history if "loss" in log]


@pytest.mark.parametrize("family", ["qwen2", "gpt2", "gpt_neo", "dynamic"])
def test_nothing_is_clipped_before_weights_change(family, tokenizer, tmp_path, caplog):
    made(family, tokenizer).save_pretrained(tmp_path / "model")
    args = stale(tmp_path, beta=0.1, max_steps=8)
    # the dataset begins with prompts of one length
    rows = [*UNEQUAL[:1] * 2, *UNEQUAL]
    run = trainer(str(tmp_path / "model"), tokenizer, args, rows=rows, rollout_func=None)
    first, *others = logs(run)
    assert len(others) == 7
    for log in (first, *others):
        assert log["clip_ratio/region_mean"] == 0
        assert log["kl"] == pytest.approx(0, abs=1e-6)
    assert first[FIRST_RATIO] == pytest.approx(1, abs=1e-5)
    assert not any(FIRST_RATIO in log for log in others)
    assert FIRST_RATIO not in caplog.text


def test_they_are_the_losss_where_the_correction_of_vllm_asks_for_them(tokenizer, tmp_path):
    """Of a model whose positions count the padding."""

    def sampled(prompts, trainer):
        ids = [tokenizer.encode(prompt) for prompt in prompts]
        words = [tokenizer.encode("is it 2")] * len(prompts)
        logprobs = [[-1.0] * len(row) for row in words]
        return {"prompt_ids": ids, "completion_ids": words, "logprobs": logprobs}

    args = config(tmp_path, learning_rate=0.0, max_steps=1, max_completion_length=16)
    run = trainer(made("gpt2", tokenizer), tokenizer, args, rows=UNEQUAL, rollout_func=sampled)
    # as of a trainer with vLLM that has handed over its weights
    run.use_vllm, run._last_loaded_step = True, 0
    (log,) = logs(run)
    assert "sampling/importance_sampling_ratio/mean" in log
    assert log[FIRST_RATIO] == pytest.approx(1, abs=1e-5)
    assert log["clip_ratio/region_mean"] == 0


def test_a_first_ratio_that_is_not_1_is_said(model, tokenizer, tmp_path, caplog):
    def changing(completions, **_):
        with torch.no_grad():
            model.lm_head.weight *= 1.1
        return [0.0] * len(completions)

    run = trainer(model, tokenizer, stale(tmp_path), reward_funcs=["accuracy_reward", changing])
    first, *_ = logs(run)
    assert 1.1 < first[FIRST_RATIO] < 3
    said = f"{FIRST_RATIO} must be 1 within rounding, got {first[FIRST_RATIO]:.3g}: "
    assert caplog.text.count(said) == 1


def test_first_ratio_in_bfloat16_is_1_within_rounding(tokenizer, tmp_path, caplog):
    settings = {"bf16": True, "max_steps": 1}
    args = stale(tmp_path, **settings)
    run = trainer(tiny_model(tokenizer), tokenizer, args, rows=UNEQUAL, rollout_func=None)
    (log,) = logs(run)
    assert 1 < log[FIRST_RATIO] < 1.15
    assert FIRST_RATIO not in caplog.text
