"""From rollouts to hypotheses and steps."""

import copy
from functools import partial

import pytest

from barl_trl.report.rollout_records import FOLDER, read_records
from barl_trl.steps import delimited_steps

from . import by_hand
from .rollouts import CASES, COMPLETIONS, PROBLEMS, config, given_rollouts, trainer, weights_of

# Hypotheses and steps


def test_answer_extractor_and_equivalence_are_the_users(model, tokenizer, tmp_path):
    barl_trainer = trainer(
        model,
        tokenizer,
        config(tmp_path, log_beliefs=True),
        answer_extractor=lambda text: text.split()[-1] if text else None,
        answer_equivalence=lambda a, b: False,
    )
    barl_trainer.train()
    first, *_ = read_records(tmp_path / FOLDER)
    assert first["hypotheses"] == ["2", r"\boxed{2}", r"\boxed{3}", "idea", r"\boxed{2.0}"]


def test_answers_that_become_no_hypothesis_are_dropped_and_counted(model, tokenizer, tmp_path):
    answers = {"long": "123456", "special": "<|im_start|>", "five": "5", "six": "6"}
    settings = {"max_answer_chars": 5, "max_hypotheses": 2, "per_device_train_batch_size": 4}
    barl_trainer = trainer(
        model,
        tokenizer,
        config(tmp_path, log_beliefs=True, **settings),
        rows=PROBLEMS[:1],
        rollout_func=given_rollouts({"1+1?": list(answers)}),
        answer_extractor=answers.get,
    )
    barl_trainer.train()
    log = barl_trainer.state.log_history[0]
    reasons = ("too_long", "special_token", "over_max_hypotheses")
    assert [log[f"barl/dropped/{reason}"] for reason in reasons] == [0.25, 0.25, 0.25]
    first, *_ = read_records(tmp_path / FOLDER)
    assert first["hypotheses"] == ["2", "5"]


def test_step_segmenter_replaces_the_step_size(model, tokenizer, tmp_path):
    segmenter = partial(delimited_steps, decode=tokenizer.decode, delimiter=",")
    args = config(tmp_path, value_normalization="none")
    got = weights_of(trainer(model, tokenizer, args, step_segmenter=segmenter))
    comma = tokenizer.encode(COMPLETIONS["1+1?"][3]).index(tokenizer.encode(",")[0])
    assert len(set(got[3][: comma + 1])) == 1
    assert len(set(got[3][comma + 1 : -1])) == 1
    assert got[3][comma] != got[3][comma + 1]


@pytest.mark.parametrize("ends", [[4], [4, 4, 99], [99]])
def test_a_wrong_step_segmenter_is_named(model, tokenizer, tmp_path, ends):
    barl_trainer = trainer(
        model,
        tokenizer,
        config(tmp_path),
        step_segmenter=lambda ids: [4] if len(ids) == 4 else ends,  # four tokens are tried first
    )
    with pytest.raises(ValueError, match="step_segmenter must return strictly ascending ends"):
        barl_trainer.train()


def test_truncated_completions_are_scored_up_to_their_last_token(
    model, tokenizer, tmp_path, expected_weights
):
    rollouts = given_rollouts(cut_off=[completion for _, completion, _ in CASES])
    for masked in (False, True):
        args = config(tmp_path, value_normalization="none", mask_truncated_completions=masked)
        got = weights_of(trainer(copy.deepcopy(model), tokenizer, args, rollout_func=rollouts))
        expected = [row[:-1] for row in expected_weights]
        expected[5] = [0.0]  # an empty completion is its end of turn alone
        by_hand.assert_equal(got, [[], [], [], [], [], expected[5], [], []] if masked else expected)
