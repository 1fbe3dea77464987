"""Batches of given rollouts: what is known of them by hand, and weights that are the trainer's."""

import copy

import pytest
import torch

from barl_trl.credit.outcome import outcome
from experiments.credit.arms import ARMS, CreditArm
from experiments.credit.batches import TokenizedProblem, for_credit, rollout_batch, scoring_passes
from experiments.sampling import sample

from ... import reference
from ...tiny import tiny_model
from ...trainer import by_hand
from ...trainer.rollouts import CASES, HYPOTHESES, PROBLEMS, ROWS, config, trainer, weights_of
from .given_batches import CUT_OFF, SOLUTIONS, given_batch, given_task, some_cut_off


@pytest.fixture
def model(tokenizer):
    return tiny_model(tokenizer, seed=2)  # some of its rollouts make the truth more plausible


@pytest.fixture(scope="module")
def batch(tokenizer):
    """Scored for all arms, by the same model."""
    return given_batch(tiny_model(tokenizer, seed=2), tokenizer, ARMS.values())


# What is known of rollouts


def test_outcomes_answers_and_ends(batch, tokenizer):
    assert batch.outcomes.tolist() == [outcome for *_, outcome in CASES]
    assert batch.has_answer.tolist() == [r"\boxed" in text for _, text, _ in CASES]
    lengths = [len(tokenizer.encode(text)) for _, text, _ in CASES]
    assert batch.step_ends == [[*range(8, n, 8), n] if n else [] for n in lengths]
    closed = [n + (row not in CUT_OFF) for row, n in enumerate(lengths)]
    assert batch.token_mask.sum(dim=1).tolist() == closed
    for scored in batch.scored.values():
        assert scored.is_cut_off.nonzero()[:, 0].tolist() == CUT_OFF
        assert scored.groups.tolist() == [0] * 4 + [1] * 4
        assert scored.is_judged.all()


def test_every_token_knows_the_place_of_its_step(batch):
    for row, ends in enumerate(batch.step_ends):
        length = int(batch.token_mask[row].sum())
        places = [sum(end <= token for end in ends) for token in range(length)]
        assert batch.step_places[row].tolist() == places + [-1] * (
            batch.token_mask.shape[1] - length
        )


@pytest.mark.parametrize("likelihood", ["mean", "sum"])
def test_log_likelihoods_are_those_of_each_answer_at_each_state(
    batch, model, tokenizer, likelihood
):
    scored = batch.scored[likelihood]
    for row, (prompt, text, _) in enumerate(CASES):
        prompt_ids, chain = tokenizer.encode(prompt), tokenizer.encode(text)
        expected = [
            [
                by_hand.answer_logp(model, tokenizer, prompt_ids + chain[:cut], answer, likelihood)
                for answer in HYPOTHESES[prompt]
            ]
            for cut in [0, *batch.step_ends[row]]
        ]
        found = scored.answer_logps[row, : len(expected)]
        torch.testing.assert_close(found, torch.tensor(expected), atol=1e-4, rtol=0)
        assert scored.state_mask[row].sum() == len(expected)


def test_rollouts_are_groups_of_samples_of_the_model(model, tokenizer):
    problems = [TokenizedProblem(tokenizer.encode(prompt), truth) for prompt, truth in PROBLEMS]
    task = given_task(tokenizer)
    batch = rollout_batch(
        model.eval(),
        task,
        problems,
        group_size=3,
        arms=[ARMS["rloo"]],
        generator=torch.Generator().manual_seed(5),
    )
    rows = [problem.prompt_ids for problem in problems for _ in range(3)]
    assert batch.prompt_ids == rows
    generator = torch.Generator().manual_seed(5)
    settings = {"max_new_tokens": task.max_new_tokens, "end_ids": task.end_ids}
    assert batch.completion_ids == sample(model, rows, generator=generator, **settings)
    assert len(set(map(tuple, batch.completion_ids))) == 6


# One scoring pass


def test_one_pass_scores_what_all_arms_of_an_answer_likelihood_ask_for(model, tokenizer):
    fed = []
    model.register_forward_pre_hook(
        lambda _, args, kwargs: fed.append(kwargs["input_ids"].numel()), with_kwargs=True
    )

    def scored(*names):
        fed.clear()
        arms = [ARMS[name] for name in names]
        return given_batch(model, tokenizer, arms).scored.keys(), sum(fed)

    scored("barl")  # the first pass checks the model, too
    likelihoods, once = scored("barl")
    assert likelihoods == {"mean"}
    assert scored("grpo", "barl", "progress, log", "belief_critic, lambda 1") == ({"mean"}, once)
    assert scored("barl", "barl, sum", "likelihood") == ({"mean", "sum"}, 2 * once)


def needs(*arms):
    passes = scoring_passes([ARMS[arm] for arm in arms])
    return {likelihood: credit.hypotheses for likelihood, credit in passes.items()}


def test_a_pass_for_each_likelihood_scores_what_its_arms_need():
    assert needs("barl", "progress", "grpo") == {"mean": "rollouts"}
    assert needs("grpo", "progress") == {"mean": "truth"}
    assert needs("grpo", "delta_belief") == {"sum": "truth"}
    assert needs("rlpr", "barl") == {"token_mean": "truth", "mean": "rollouts"}
    assert needs("rloo") == {"mean": "none"}  # steps and answers are read with it


def test_a_credit_sees_the_hypotheses_that_it_asks_for_and_the_belief_in_them(batch):
    scored = batch.scored["mean"]
    everything = for_credit(scored, CreditArm("barl", consistency_beta=3.0))
    truth, nothing = (
        for_credit(scored, CreditArm("progress")),
        for_credit(scored, CreditArm("grpo")),
    )
    assert torch.equal(everything.answer_logps, scored.answer_logps)
    assert torch.equal(truth.answer_logps, scored.answer_logps[..., :1])
    assert torch.equal(truth.belief[..., 0], scored.state_mask.float())
    sizes = [seen.hypothesis_mask.shape[1] for seen in (everything, truth, nothing)]
    assert sizes == [seen.belief.shape[2] for seen in (everything, truth, nothing)] == [2, 1, 0]
    for row, exists in enumerate(scored.state_mask):
        expected = reference.posterior(scored.answer_logps[row, exists].tolist(), 3.0)
        torch.testing.assert_close(everything.belief[row, exists], torch.tensor(expected))


# Weights


def check_weights(batch, arm, model, tokenizer, tmp_path, rows=ROWS):
    """Compare the weights with those that a trainer computes."""
    settings = {"credit": arm.credit, "consistency_beta": arm.consistency_beta, **arm.settings}
    args = config(tmp_path, **settings)
    made = trainer(copy.deepcopy(model), tokenizer, args, rollout_func=some_cut_off)
    weights, lengths = batch.token_weights(arm), batch.token_mask.sum(dim=1).tolist()
    found = [row[:length].tolist() for row, length in zip(weights, lengths, strict=True)]
    by_hand.assert_equal(found, weights_of(made, rows), atol=1e-4)
    assert not weights[~batch.token_mask].any()
    assert weights.any()


@pytest.mark.filterwarnings("ignore:.*docs/credit.md")
@pytest.mark.parametrize("name", ARMS)
def test_weights_are_those_of_the_trainer(batch, model, tokenizer, tmp_path, name):
    check_weights(batch, ARMS[name], model, tokenizer, tmp_path)


@pytest.mark.parametrize(
    "settings", [{"value_normalization": "group"}, {"credit_baseline": "step"}]
)
def test_weights_with_another_baseline_or_normalization(
    batch, model, tokenizer, tmp_path, settings
):
    check_weights(batch, CreditArm("barl", settings=settings), model, tokenizer, tmp_path)


TAKEN = []


def of_mine(
    rollouts, *, step_size, max_hypotheses, answer_likelihood, credit, max_completion_length=1,
    consistency_beta=None, outcome_mode="hypothesis", gae_lambda=0.5, temperature=2.0,
    learning_rate=3.0, hypotheses="mine",
):  # fmt: skip
    """A credit of the user's own, with parameters named as fields of BARL's, TRL's and `Credit`."""
    TAKEN.append({name: value for name, value in locals().items() if name != "rollouts"})
    return outcome(rollouts)


def test_a_credit_of_the_users_own_gets_the_settings_that_it_gets_in_training(
    batch, model, tokenizer, tmp_path
):
    arm = CreditArm(
        f"{__name__}.of_mine", consistency_beta=3.0, settings={"value_normalization": "none"}
    )
    check_weights(batch, arm, model, tokenizer, tmp_path)
    in_evaluation, in_training = TAKEN
    assert in_evaluation == in_training
    assert in_training == {
        "step_size": 8,
        "max_hypotheses": None,
        "answer_likelihood": "mean",
        "credit": arm.credit,
        "max_completion_length": 64,
        "consistency_beta": 3.0,
        "outcome_mode": "ground_truth",
        "gae_lambda": 0.5,
        "temperature": 2.0,
        "learning_rate": 3.0,
        "hypotheses": "mine",
    }


def test_weights_do_not_depend_on_the_arms_that_are_scored_with_theirs(batch, model, tokenizer):
    for name, others in [("belief_critic", []), ("rloo", ["likelihood"]), ("grpo", ["barl"])]:
        arms = [ARMS[arm] for arm in (name, *others)]
        few = given_batch(model, tokenizer, arms)
        expected = batch.token_weights(ARMS[name])
        torch.testing.assert_close(few.token_weights(ARMS[name]), expected)


def test_rollouts_without_a_usable_truth_weigh_nothing_and_move_no_others(
    model, tokenizer, tmp_path
):
    solutions = SOLUTIONS | {"1+1?": "9" * 10_000}
    rows = [{"prompt": prompt, "solution": solutions[prompt]} for prompt, *_ in CASES]
    for name in ("barl", "information_gain", "rloo", "belief_critic"):
        batch = given_batch(model, tokenizer, [ARMS[name]], solutions)
        assert not batch.token_weights(ARMS[name])[:4].any()
        check_weights(batch, ARMS[name], model, tokenizer, tmp_path, rows)
