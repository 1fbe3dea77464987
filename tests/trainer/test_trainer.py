"""`BARLTrainer`'s gradient, old log-probabilities and ratios, and what of TRL goes through."""

import copy
import math
import pickle
from statistics import fmean

import numpy as np
import pytest
import torch
from accelerate.utils import send_to_device
from peft import LoraConfig
from trl import GRPOTrainer

from barl_trl.trainer.records import FOLDER, read_records
from barl_trl.trainer.trainer import FIRST_RATIO, Rows

from ..plausibility.models import GPT2, REENCODED, make
from ..tiny import tiny_model
from . import by_hand
from .playing import Keeping
from .rollouts import CASES, PROBLEMS, config, given_rollouts, output_of, trainer, weights_of

# Gradient; the corrections of vLLM without it: rollouts and their log-probabilities are given

DIFFERENCES = [0.0, -0.9, 0.7, 1.5, math.log(3) + 0.01, -2.4]
"""Trainer's minus sampler's log-probability, of a completion's tokens in turn."""


def differences(num_tokens):
    return [DIFFERENCES[k % len(DIFFERENCES)] for k in range(num_tokens)]


def corrected_trainer(model, tokenizer, args):
    """A trainer whose rollouts come with the log-probabilities of another sampler."""

    def rollout_func(prompts, trainer):
        rollouts = given_rollouts()(prompts, trainer)
        texts = [tokenizer.decode(ids[:-1]) for ids in rollouts["completion_ids"]]
        with torch.no_grad():
            pairs = zip(prompts, texts, strict=True)
            logps = [by_hand.completion_logps(model, tokenizer, *pair) for pair in pairs]
        logps = [(row - torch.tensor(differences(len(row)))).tolist() for row in logps]
        return rollouts | {"logprobs": logps}

    made = trainer(copy.deepcopy(model), tokenizer, args, rollout_func=rollout_func)
    # as of a trainer with vLLM that has handed over its first weights
    made.use_vllm, made._last_loaded_step = True, 0
    return made


def ratios(mode, num_tokens):
    """Per token, before and after the bound 3."""
    logs = differences(num_tokens) if mode else [0.0] * num_tokens
    if mode and mode.startswith("sequence"):
        logs = [sum(logs)] * num_tokens
    raw = [math.exp(x) for x in logs]
    is_kept = mode is not None and mode.endswith("truncate")
    return raw, [min(r, 3.0) if is_kept else r * (r <= 3.0) for r in raw]


@pytest.mark.parametrize("mode", [None, "token_truncate", "sequence_mask"])
def test_the_gradient_is_by_hand(model, tokenizer, tmp_path, expected_weights, mode):
    """The ratios are recorded, and the share that the bound changed is logged."""
    settings = {"vllm_importance_sampling_mode": mode, "log_beliefs": True} if mode else {}
    settings |= {"value_normalization": "none", "loss_type": "grpo", "max_grad_norm": 1e9}
    settings |= {"optim": "sgd", "learning_rate": 1.0, "lr_scheduler_type": "constant"}
    args = config(tmp_path, **settings)
    made = (corrected_trainer if mode else trainer)(copy.deepcopy(model), tokenizer, args)
    made.train()
    loss, clipped = 0.0, []
    records = read_records(tmp_path / FOLDER) if mode else [None] * len(CASES)
    rollouts = zip(CASES, expected_weights, records, strict=True)
    for (prompt, completion, _), weights, record in rollouts:
        logps = by_hand.completion_logps(model, tokenizer, prompt, completion)
        raw, ratio = ratios(mode, len(logps))
        if record:
            np.testing.assert_allclose(record["importance_ratios"], ratio, rtol=1e-3)
        clipped += [r > 3.0 for r in raw]
        loss = loss - (logps * torch.tensor(weights) * torch.tensor(ratio)).mean() / len(CASES)
    loss.backward()
    for before, after in zip(model.parameters(), made.model.parameters(), strict=True):
        torch.testing.assert_close(before - after, before.grad, atol=1e-5, rtol=1e-4)
    if mode:
        assert made.state.log_history[0][FIRST_RATIO] == pytest.approx(1, abs=1e-5)
        share = made.state.log_history[0]["sampling/importance_sampling_ratio/frac_clipped"]
        assert share == pytest.approx(fmean(clipped)) and 0 < share < 1


# TRL's features


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_completions_without_answers_and_unusable_truths_are_trained_on(make, share):
    silent = {"rollout_func": given_rollouts({prompt: ["", "no idea"] for prompt, _ in PROBLEMS})}
    first = {0.0: PROBLEMS, 0.5: [PROBLEMS[0], ("Half of one?", "9" * 10_000)]}
    rows = first.get(share, [("1+1?", None), ("Half of one?", "9" * 10_000)])
    made = make(
        rows=[*rows, *PROBLEMS],  # a set without any truth is refused
        reward_funcs=lambda completions, **_: [float(len(text)) for text in completions],
        **silent if share == 0 else {},
    )
    made.train()
    log = made.state.log_history[0]
    assert log["barl/unusable_truths"] == share
    assert log["barl/no_answer"] == (0.25 if share else 1.0)
    assert (log["grad_norm"] > 0) == (share < 1)


# Old log-probabilities


@pytest.mark.parametrize("method", ["shared_prefix", "reencode"])
@pytest.mark.parametrize("adapter", [False, True])
def test_old_log_probabilities_come_out_of_the_scoring_pass(make, method, adapter):
    """Where rollouts outlive an optimizer step TRL needs them."""
    stale = {"per_device_train_batch_size": 4, "steps_per_generation": 2, "temperature": 0.7}
    lora = LoraConfig(r=4, init_lora_weights=False) if adapter else None
    made = make(scoring_method=method, beta=0.1 * adapter, peft_config=lora, **stale)
    output = output_of(made)
    ids = torch.cat([output["prompt_ids"], output["completion_ids"]], dim=1)
    mask = torch.cat([output["prompt_mask"], output["completion_mask"]], dim=1)
    with torch.no_grad():
        expected, _, _ = GRPOTrainer._get_per_token_logps_and_entropies(
            made, made.model, ids, mask, output["completion_ids"].shape[1]
        )
    kept = output["completion_mask"].bool()
    got = output["old_per_token_logps"]
    torch.testing.assert_close(got[kept], expected[kept], atol=1e-4, rtol=0)
    assert got[kept].std() > 0.5
    if adapter:
        assert not torch.allclose(got[kept], output["ref_per_token_logps"][kept], atol=1e-2)


DROPOUTS = "resid_pdrop embd_pdrop attn_pdrop resid_dropout embed_dropout attention_dropout"
NO_DROPOUT = dict.fromkeys(DROPOUTS.split(), 0.0)
DYNAMIC = {"rope_type": "dynamic", "factor": 4.0, "rope_theta": 1e4}
UNEQUAL = [("1+1?", "2"), ("What is one half of the number one, as a fraction?", "1/2")]


def made_of(family, tokenizer):
    special = {"pad_token_id": tokenizer.pad_token_id, "eos_token_id": tokenizer.eos_token_id}
    settings = {"vocab_size": len(tokenizer), "bos_token_id": None, **special}
    if family == "qwen2":
        return tiny_model(tokenizer)
    if family == "dynamic":
        rope = {"max_position_embeddings": 32, "rope_parameters": dict(DYNAMIC)}
        return make("llama", **settings, **rope)
    sizes = GPT2 if family == "gpt2" else REENCODED[family]
    return make(family, **{**settings, **sizes, **NO_DROPOUT})


# a rollout batch in four steps, in which the weights stay as they are
FROZEN = {"per_device_train_batch_size": 2, "steps_per_generation": 4, "learning_rate": 0.0}


def logs(run):
    run.train()
    return [log for log in run.state.log_history if "loss" in log]


@pytest.mark.parametrize("family", ["qwen2", "gpt2", "gpt_neo", "dynamic"])
def test_nothing_is_clipped_before_weights_change(family, make, tokenizer, tmp_path, caplog):
    """Both sides of an importance ratio come from the same kind of forward pass."""
    made_of(family, tokenizer).save_pretrained(tmp_path / "model")
    given = FROZEN | {"beta": 0.1, "max_steps": 6, "max_completion_length": 16}
    rows = [*UNEQUAL[:1] * 2, *UNEQUAL]  # the dataset begins with prompts of one length
    given |= {"model": str(tmp_path / "model"), "rows": rows, "rollout_func": None}
    first, *others = logs(make(**given))
    assert len(others) == 5
    for log in (first, *others):
        assert log["clip_ratio/region_mean"] == 0
        assert log["kl"] == pytest.approx(0, abs=1e-6)
    assert first[FIRST_RATIO] == pytest.approx(1, abs=1e-5)
    assert not any(FIRST_RATIO in log for log in others)
    assert FIRST_RATIO not in caplog.text


def test_a_first_ratio_that_is_not_1_is_said(make, caplog):
    def changing(completions, **_):
        with torch.no_grad():
            run.model.lm_head.weight *= 1.1
        return [0.0] * len(completions)

    run = make(reward_funcs=["accuracy_reward", changing], **FROZEN)
    (first,) = logs(run)
    assert 1.1 < first[FIRST_RATIO] < 3 and FIRST_RATIO in caplog.text


# Rows of a batch on their way to the trainer


def test_rows_go_to_the_device_where_they_have_tensors_and_are_not_walked_through_otherwise():
    texts = [{"prompt": "a", "candidates": ["1", "2"]}, {"prompt": "b", "candidates": ["3"]}]
    rows = Rows(texts)
    assert send_to_device(rows, torch.device("cpu"), non_blocking=True) is rows
    assert rows == texts == pickle.loads(pickle.dumps(rows))  # the loader may have processes
    assert send_to_device(Rows([]), torch.device("cpu")) == []
    rows = Rows([{"prompt": "a", "image": torch.zeros(2)}])
    sent = send_to_device(rows, torch.device("meta"), non_blocking=True)
    assert isinstance(sent, Rows) and sent[0]["prompt"] == "a"
    assert sent[0]["image"].device.type == "meta" and rows[0]["image"].device.type == "cpu"


# What of a row reaches the merging of answers


def test_an_equivalence_with_columns_gets_the_groups_row(make):
    """Every answer that is a multiple of the row's number is right, as in tasks with a scorer."""

    def same(truth, answer, *, factor, **columns):
        assert {"solution", "factor"} == {*columns, "factor"}
        return truth == answer or (truth.isdigit() and int(truth) % factor == int(answer) % factor)

    completions = {"a": [r"\boxed{4}", r"\boxed{6}", r"\boxed{7}", r"\boxed{x}"]}
    rows = [{"prompt": "a", "solution": "2", "factor": 2}] * 4
    made = make(
        cls=Keeping,
        per_device_train_batch_size=4,
        rollout_func=given_rollouts(completions),
        answer_equivalence=lambda a, b, **row: a == b or ("x" not in a + b and same(a, b, **row)),
    )
    weights_of(made, rows)
    assert made.scored.sets[0].members == (0, 0, 1, 2)


def test_texts_of_options_are_their_letters_to_rewards_and_hypotheses(make):
    completions = {"a": [r"\boxed{B}", r"\boxed{a prime}", r"\boxed{B: a prime}", r"\boxed{4}"]}
    rows = [{"prompt": "a", "solution": "B", "lettered_options": ["4", "A prime"]}] * 4
    given = {"per_device_train_batch_size": 4, "rollout_func": given_rollouts(completions)}
    made = make(cls=Keeping, **given)
    weights_of(made, rows)
    assert made._rewards_per_func[:, 0].tolist() == [1.0, 1.0, 1.0, 0.0]
    assert made.scored.sets[0].answers == ("B", "A")
    assert made.scored.sets[0].members == (0, 0, 0, 1)
