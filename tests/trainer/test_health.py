"""What is said of runs that cannot learn, and what becomes of rewards of infinity."""

import math

import pytest
from datasets import Dataset

from barl_trl.trainer.logging.health import MANY, SYMPTOMS

from ..paths import ROOT
from .rollouts import COMPLETIONS, ROWS, config, given_rollouts, make_trainer, trainer


def said(caplog, about):
    return [r.getMessage() for r in caplog.records if about in r.getMessage()]


def log_values(barl_trainer, name, values):
    barl_trainer._metrics["train"][name] += values
    barl_trainer.log({})


@pytest.mark.parametrize("symptom", SYMPTOMS, ids=lambda symptom: symptom.metric)
def test_a_symptom_is_said_once_where_it_lasts(model, tokenizer, tmp_path, caplog, symptom):
    well, ill = (0.0, 1.0) if symptom.is_ill(1.0) and not symptom.is_ill(0.0) else (2.0, 0.0)
    barl_trainer = trainer(model, tokenizer, config(tmp_path))
    almost = [ill] * (symptom.batches - 1)
    log_values(barl_trainer, symptom.metric, [*almost, well, *almost])
    assert not said(caplog, symptom.metric)
    log_values(barl_trainer, symptom.metric, [ill])  # those of earlier logs count
    log_values(barl_trainer, symptom.metric, [ill] * 2 * symptom.batches)
    (text,) = said(caplog, symptom.metric)
    assert text.startswith(f"{symptom.metric} is {ill:.3g} in {symptom.batches} rollout batches")
    assert "{" not in text and text.endswith(".")


def test_a_log_of_evaluation_counts_no_batch(model, tokenizer, tmp_path, caplog):
    (symptom,) = [one for one in SYMPTOMS if one.metric == "completions/clipped_ratio"]
    barl_trainer = trainer(model, tokenizer, config(tmp_path))
    barl_trainer._metrics["train"][symptom.metric] += [1.0] * (symptom.batches - 1)
    args, state, control = barl_trainer.args, barl_trainer.state, barl_trainer.control
    for logs in ({"eval_accuracy": 0.5}, {"loss": 0.0}):
        barl_trainer.callback_handler.on_log(args, state, control, logs)
    assert not said(caplog, symptom.metric)


def test_docs_list_the_symptoms():
    docs = (ROOT / "docs" / "training.md").read_text()
    for symptom in SYMPTOMS:
        (row,) = [line for line in docs.splitlines() if line.startswith(f"| `{symptom.metric}` ")]
        assert row.split("|")[3].split(";")[0].strip() == str(symptom.batches)


def test_metrics_of_a_run_show_its_symptoms(model, tokenizer, tmp_path, caplog):
    """No completion has an end, an answer, or more than one step; all rewards are 0."""
    texts = {prompt: ["no idea"] for prompt in COMPLETIONS}
    args = config(tmp_path, max_steps=MANY, step_size=64, max_completion_length=2, logging_steps=3)
    barl_trainer = trainer(
        model, tokenizer, args, rollout_func=given_rollouts(texts, cut_off=["no idea"])
    )
    barl_trainer.train()
    log = barl_trainer.state.log_history[-2]
    assert log["barl/no_answer"] == log["completions/clipped_ratio"] == 1
    assert log["frac_reward_zero_std"] == log["barl/steps_per_rollout"] == 1
    length = max(len(tokenizer.encode(p)) for p in texts) + len(tokenizer.encode("no idea"))
    assert log["max_sequence_length"] == length
    assert math.isnan(log["barl/belief_shift"] or math.nan)  # the truth alone is believed always
    for metric in ("clipped_ratio", "steps_per_rollout", "frac_reward_zero_std"):
        assert len(said(caplog, f"{metric} is 1 in")) == 1
    assert len(said(caplog, "have no answer")) == 1


def test_sequences_longer_than_the_models_positions(model, tokenizer, tmp_path, caplog):
    trainer(model, tokenizer, config(tmp_path, max_completion_length=513))
    (text,) = said(caplog, "positions")
    assert text.startswith("513 tokens are more than the model's 512 positions")
    caplog.clear()
    texts = {prompt: ["1" * 600] for prompt in COMPLETIONS}
    barl_trainer = trainer(model, tokenizer, config(tmp_path), rollout_func=given_rollouts(texts))
    assert not said(caplog, "positions")
    barl_trainer._generate_and_score_completions(ROWS[:1] * 8)
    assert len(said(caplog, "605 tokens are more than the model's 512 positions")) == 1


def infinite_from(step):
    def reward(completions, trainer_state, **_):
        return [
            -math.inf if n == 0 and trainer_state.global_step >= step else 1.0
            for n in range(len(completions))
        ]

    return reward


@pytest.mark.parametrize("missing", [None, math.nan])
@pytest.mark.parametrize("method", ["barl", "grpo"])
def test_rewards_that_are_all_missing_are_said_in_one_line(
    model, tokenizer, tmp_path, caplog, method, missing
):
    rows = [{"prompt": prompt, "solution": "2"} for prompt in COMPLETIONS]
    made = make_trainer(
        method,
        model=model,
        reward_funcs=lambda completions, **_: [missing] * len(completions),
        args=config(tmp_path, max_steps=2),
        train_dataset=Dataset.from_list(rows),
        processing_class=tokenizer,
        rollout_func=given_rollouts(),
    )
    made.train()
    assert said(caplog, "no rollout of a batch of 8 has a reward: reward_funcs returned NaN or")
    assert len(said(caplog, "has a reward")) == 1
    assert made.state.log_history[1]["grad_norm"] == 0


@pytest.mark.parametrize("method", ["barl", "grpo"])
def test_infinite_rewards_are_refused_at_first_and_left_out_later(
    model, tokenizer, tmp_path, caplog, method
):
    def run(step):
        rows = [{"prompt": prompt, "solution": "2"} for prompt in COMPLETIONS]
        made = make_trainer(
            method,
            model=model,
            reward_funcs=infinite_from(step),
            args=config(tmp_path, max_steps=3, learning_rate=0.0),
            train_dataset=Dataset.from_list(rows),
            processing_class=tokenizer,
            rollout_func=given_rollouts(),
        )
        made.train()
        return made.state.log_history

    with pytest.raises(ValueError, match=r"reward must return finite rewards, got -inf: return"):
        run(0)
    first, second, third = run(1)[:3]
    assert "infinite_rewards" not in first
    assert second["infinite_rewards"] == third["infinite_rewards"] == 1 / 8
    assert second["reward"] == 1.0
    assert len(said(caplog, "finite rewards")) == 1
