"""Token weights of rollouts that are given, with every credit, checked by plain loops."""

import math
from functools import cache, partial

import numpy as np
import pytest
import torch
from datasets import Dataset
from trl import GRPOTrainer

from barl_trl import BARLTrainer
from barl_trl.credit import CREDITS
from barl_trl.rewards import accuracy_reward
from barl_trl.steps import delimited_steps
from barl_trl.trainer.records import FOLDER, read_records

from .. import reference
from ..tiny import tiny_model, tiny_tokenizer
from . import by_hand
from .rollouts import CASES, COMPLETIONS, ROWS, given_rollouts, output_of, weights_of

PROMPTS = [{"prompt": row["prompt"]} for row in ROWS]
GUESS = CASES[1][1]
CUT_OFF = [GUESS, CASES[6][1]]


def label_free(twin):
    """What replaces the outcome must not compare the hypotheses with the true answer's progress."""
    return lambda rollouts, **options: twin([r._replace(beta=0.0) for r in rollouts], **options)


# What each computes where the configuration gives nothing but its name: its plain loops, the
# likelihood of answers, and the baseline.
TWINS = {
    "barl": reference.barl,
    "progress": reference.progress,
    "grpo": reference.grpo,
    "rloo": reference.outcome,
    "turns": reference.outcome,  # where no turn has a reward
    "gae": partial(reference.gae, gae_lambda=1.0),
    "gae_posterior": partial(reference.gae_posterior, gae_lambda=1.0),
    "belief_critic": partial(reference.belief_critic, gae_lambda=0.7, bootstrap_cut_off=True),
    "information_gain": reference.information_gain,
    "delta_belief": reference.delta_belief,
    "bayes": label_free(partial(reference.bayes, information_weight=0.0)),
    "rlpr": reference.rlpr,
    "likelihood": reference.likelihood,
}
LIKELIHOODS = {"delta_belief": "sum", "rlpr": "token_mean", "likelihood": "sum"}
BASELINES = dict.fromkeys(("rloo", "likelihood"), "leave_one_out")
BASELINES |= dict.fromkeys(("bayes", "turns"), "step")
OPTIONS = [
    ("barl", {"outcome_mode": "hypothesis"}),
    ("progress", {"progress_space": "log"}),
    ("information_gain", {"progress_space": "log"}),
    ("gae", {"gae_lambda": 0.5}),
    ("gae_posterior", {"gae_lambda": 0.0}),
    ("belief_critic", {"gae_lambda": 1.0, "bootstrap_cut_off": False}),
    ("bayes", {"information_weight": 0.5}),
]


@cache
def given(likelihood="mean"):
    """The given rollouts, of which two were cut off."""
    tokenizer = tiny_tokenizer()
    model = tiny_model(tokenizer)
    return by_hand.scored_rollouts(model, tokenizer, cut_off=CUT_OFF, reduction=likelihood)


def expected_of(tokenizer, twin, likelihood, baseline):
    """Their weights, before whitening."""
    rollouts = given(likelihood)
    values = reference.subtract_baseline(twin(rollouts), rollouts, baseline)
    pairs = zip(values, CASES, strict=True)
    rows = [by_hand.over_tokens(tokenizer, completion, row) for row, (_, completion, _) in pairs]
    return [row[:-1] if r.is_cut_off else row for row, r in zip(rows, rollouts, strict=True)]


@pytest.fixture
def credited(make):
    return partial(make, value_normalization="none", rollout_func=given_rollouts(cut_off=CUT_OFF))


# Credits


@pytest.mark.parametrize(
    ("credit", "settings"),
    [
        *[(credit, {}) for credit in CREDITS],
        *[(credit, {"credit_options": options}) for credit, options in OPTIONS],
        *[("progress", {"answer_likelihood": one}) for one in ("sum", "token_mean")],
        *[("rloo", {"credit_baseline": one}) for one in ("none", "group", "belief")],
        *[("barl", {"credit_baseline": one}) for one in ("batch", "leave_one_out", "step")],
        ("barl", {"credit_baseline": "belief"}),
    ],
)
def test_tokens_have_the_values_of_their_steps(credited, tokenizer, credit, settings):
    got = weights_of(credited(credit=credit, **settings))
    expected = expected_of(
        tokenizer,
        partial(TWINS[credit], **settings.get("credit_options", {})),
        settings.get("answer_likelihood", LIKELIHOODS.get(credit, "mean")),
        settings.get("credit_baseline", BASELINES.get(credit, "none")),
    )
    by_hand.assert_equal(got, expected, atol=1e-4)


def brevity(completions, **_):
    """A reward, but none for one completion."""
    return [None if text == "no idea" else -len(text) / 10 for text in completions]


@pytest.mark.parametrize("truths", ["none", "unusable"])
def test_grpo_is_trls_and_needs_no_truths(make, truths):
    rows = [row | {"solution": "9" * 10_000} if truths != "none" else row for row in PROMPTS]
    given = {"credit": "grpo", "optim": "sgd", "learning_rate": 1.0, "max_grad_norm": 1e9}
    given |= {"reward_funcs": brevity, "train_dataset": Dataset.from_list(rows[::4])}
    given |= {"eval_dataset": given["train_dataset"], "per_device_eval_batch_size": 8}
    own, trls = (make(cls=cls, **given) for cls in (BARLTrainer, GRPOTrainer))
    got = weights_of(own, rows)
    advantages = output_of(trls, rows)["advantages"].tolist()
    assert advantages[2] == 0
    flat = [[a] * len(row) for a, row in zip(advantages, got, strict=True)]
    by_hand.assert_equal(got, flat, atol=1e-6)
    own.train()
    trls.train()
    assert not {"barl/unusable_truths", "barl/no_answer"} & own.state.log_history[0].keys()
    assert own.evaluate()["eval_reward"] == pytest.approx(trls.evaluate()["eval_reward"])
    for parameter, expected in zip(own.model.parameters(), trls.model.parameters(), strict=True):
        torch.testing.assert_close(parameter, expected, atol=1e-6, rtol=0)


@pytest.mark.parametrize("credit", ["grpo", "progress"])
def test_without_scores_there_is_no_pass_that_scores_and_no_belief_to_log(credited, credit):
    made, with_gradient = credited(credit=credit), []
    made.model.register_forward_pre_hook(lambda *_: with_gradient.append(torch.is_grad_enabled()))
    made.train()
    assert (with_gradient == [True]) == (credit == "grpo")
    log = made.state.log_history[0]
    assert ("barl/scoring_tokens" in log) == (credit == "progress")
    assert not {"barl/posterior_entropy", "barl/truth_mass"} & log.keys()


# The paper's


@pytest.mark.parametrize(
    ("method", "reduction", "beta", "temperature"),
    [
        ("shared_prefix", "mean", 1.0, 1.0),
        ("shared_prefix", "sum", math.inf, 1.0),
        ("reencode", "mean", 0.0, 2.0),
    ],
)
def test_the_papers_values(make, model, tokenizer, method, reduction, beta, temperature):
    fields = {"scoring_method": method, "answer_likelihood": reduction, "consistency_beta": beta}
    fields |= {"value_normalization": "none", "plausibility_temperature": temperature}
    likelihood = {"reduction": reduction, "temperature": temperature}
    expected = by_hand.weights(model, tokenizer, beta=beta, **likelihood)
    by_hand.assert_equal(weights_of(make(**fields)), expected)


def test_whitening_over_the_batch_and_within_groups(make, expected_weights):
    for normalization, groups in [("batch", [range(8)]), ("group", [range(4), range(4, 8)])]:
        got = weights_of(make(value_normalization=normalization))
        for group in groups:
            flat = np.concatenate([expected_weights[b] for b in group])
            want = [(np.array(expected_weights[b]) - flat.mean()) / flat.std() for b in group]
            by_hand.assert_equal([got[b] for b in group], want, atol=1e-3)


def test_outcome_reward_is_the_weighted_sum_of_the_reward_functions(make, model, tokenizer):
    def short(completions, **kwargs):
        return [-len(c) / 10 for c in completions]

    rewards = {"reward_funcs": [accuracy_reward, short], "reward_weights": [2.0, 0.5]}
    got = weights_of(make(value_normalization="none", **rewards))
    outcomes = [2 * v - len(c) / 20 for _, c, v in CASES]
    by_hand.assert_equal(got, by_hand.weights(model, tokenizer, outcomes=outcomes))


def test_what_others_wrote_or_is_behind_the_end_has_no_weight(make, tokenizer, expected_weights):
    behind = [tokenizer.pad_token_id, tokenizer.eos_token_id]

    def rollout_func(prompts, trainer):
        output = given_rollouts()(prompts, trainer)
        ids = [row + behind for row in output["completion_ids"]]
        masks = [[1] * len(row) for row in ids]
        masks[0][2:4] = [0, 0]
        return output | {"completion_ids": ids, "env_mask": masks}

    got = weights_of(make(value_normalization="none", rollout_func=rollout_func))
    expected_weights[0][2:4] = [0.0, 0.0]
    by_hand.assert_equal(got, [row + [0.0] * len(behind) for row in expected_weights])


def test_truncated_completions_are_scored_up_to_their_last_token(make, expected_weights):
    given = {"rollout_func": given_rollouts(cut_off=[completion for _, completion, _ in CASES])}
    for masked in (False, True):
        fields = {"value_normalization": "none", "mask_truncated_completions": masked}
        got = weights_of(make(**given, **fields))
        expected = [row[:-1] for row in expected_weights]
        expected[5] = [0.0]  # an empty completion is its end of turn alone
        by_hand.assert_equal(got, [[], [], [], [], [], expected[5], [], []] if masked else expected)


# Hypotheses and steps


def test_answers_are_read_and_merged_as_the_user_says(make, tmp_path):
    own = {"answer_extractor": lambda text: text.split()[-1] if text else None}
    own |= {"answer_equivalence": lambda a, b: False}
    weights_of(make(tmp_path / "own", log_beliefs=True, **own))
    first, *_ = read_records(tmp_path / "own" / FOLDER)
    assert first["hypotheses"] == ["2", r"\boxed{2}", r"\boxed{3}", "idea", r"\boxed{2.0}"]
    texts = ["The answer is 2.", "I guess\n#### 3", "no idea, 4", "Or <answer>2.0</answer>"]
    given = {"rollout_func": given_rollouts(dict.fromkeys(COMPLETIONS, texts))}
    weights_of(make(tmp_path / "stated", log_beliefs=True, extraction="stated", **given))
    records = [*read_records(tmp_path / "stated" / FOLDER)][:4]
    assert [record["answer"] for record in records] == ["2", "3", None, "2.0"]
    assert [record["outcome"] for record in records] == [1.0, 0.0, 0.0, 1.0]
    assert records[0]["hypotheses"] == ["2", "3"]


def test_step_segmenter_replaces_the_step_size(make, tokenizer):
    segmenter = partial(delimited_steps, decode=tokenizer.decode, delimiter=",")
    got = weights_of(make(value_normalization="none", step_segmenter=segmenter))
    comma = tokenizer.encode(COMPLETIONS["1+1?"][3]).index(tokenizer.encode(",")[0])
    assert len(set(got[3][: comma + 1])) == 1
    assert len(set(got[3][comma + 1 : -1])) == 1
    assert got[3][comma] != got[3][comma + 1]

    ends = []
    wrong = make(step_segmenter=lambda ids: ends or [len(ids)])
    for ends[:] in ([4], [4, 4, 99], [99]):
        with pytest.raises(ValueError, match="step_segmenter"):
            weights_of(wrong)
