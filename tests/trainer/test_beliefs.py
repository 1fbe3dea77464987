"""Beliefs from the task: given hypotheses, observations, predicted rewards, and what is logged."""

import math
from functools import partial

import pytest
import torch
from datasets import Dataset

from barl_trl.rewards import cost
from barl_trl.steps import delimited_steps
from barl_trl.trainer.metrics import _bad_signs

from .. import reference
from .playing import Keeping, call, played
from .rollouts import given_rollouts, output_of, task_function
from .test_agents import GAMES, QUESTION, Guess, agent, look

NUMBERS = ["3", "7", "9", "12"]
PRIOR = [1.0, 2.0, 3.0, 4.0]
ROWS = [{"prompt": QUESTION, "solution": "12", "numbers": NUMBERS, "prior": PRIOR}] * 4
TASK = {"credit": "bayes", "belief": "task", "hypotheses_column": "numbers", "step_size": 99}
OUTCOMES = {"credit_options": {"information_weight": 0.0}, "credit_baseline": "leave_one_out"}
ORDER = ["12", "3", "7", "9"]
"""The truth stands first."""
LOGPS = [
    [[0, 0, -math.inf, 0], [0] * 4, [0] * 4],
    [[0] * 4, [0] * 4],
    [[0] * 4],
    [[0] + [-math.inf] * 3, [0] * 4, [0, 0, 0, 0], [0] * 4],
]
"""Log-likelihoods of what each step of `GAMES` brings, in this order."""
ANSWERS = [0, 3, None, 0]


def compared(messages, hypotheses):
    """Log-likelihoods of the messages of one turn."""
    asked = [c["function"] for m in messages for c in m.get("tool_calls") or ()]
    told = [m["content"] for m in messages if m["role"] == "tool"]
    row = [0.0] * len(hypotheses)
    for question, reply in zip(asked, told, strict=False):
        if question["name"] == "compare":
            number = str(question["arguments"]["number"])
            row = [
                logp if (text == number) == (reply == "equal") else -math.inf
                for text, logp in zip(hypotheses, row, strict=True)
            ]
    return row


class KnowingGuess(Guess):
    def _observation_log_likelihoods(self, hypotheses, steps):
        return [compared(messages, hypotheses) for messages in steps]


def likelihood(prompts, completions, hypotheses, steps, environments, **columns):
    assert columns["solution"] == ["12"] * len(prompts)
    return [
        [compared(messages, texts) for messages in turns]
        for turns, texts in zip(steps, hypotheses, strict=True)
    ]


def game(tmp_path, *, rows=ROWS, factory=KnowingGuess, reward_funcs=(), **kwargs):
    options = {"reward_funcs": list(reward_funcs), "environment_factory": factory}
    return agent(tmp_path, rows=rows, **options, **TASK | OUTCOMES | kwargs)


def weights_by_hand(values):
    """RLOO's baseline of rollouts whose values are the same at all steps."""
    return [v - (sum(values) - v) / (len(values) - 1) for v in values]


def check_weights(trainer, output, expected):
    for n, want in enumerate(expected):
        mask = torch.tensor(trainer.generated.masks[n]).bool()
        weights, ends = output["advantages"][n][: len(mask)], trainer.scored.step_ends[n]
        assert not weights[~mask].any()
        wanted = want if isinstance(want, list) else [want] * (len(ends) + 1)
        for one, start, end in zip(wanted, [0, *ends], [*ends, len(mask)], strict=True):
            own = weights[start:end][mask[start:end]].tolist()
            assert own == pytest.approx([one] * len(own), abs=1e-6)


def belief(logps, prior=(1.0,) * 4):
    return reference.task_posterior([*prior], logps, [[0.0] * 4] * len(logps), 1.0)


def expected_outcomes(prior=(1.0,) * 4):
    beliefs = (belief(logps, prior)[-1] for logps in LOGPS)
    return [0.0 if a is None else b[a] for a, b in zip(ANSWERS, beliefs, strict=True)]


def test_by_default_information_is_paid_and_steps_are_compared_with_steps(tmp_path):
    trainer = game(tmp_path, credit_options=None, credit_baseline=None)
    output, values = played(trainer, ROWS, GAMES), []
    for expected, logps in zip(expected_outcomes(), LOGPS, strict=True):
        entropies = [*map(reference.entropy, belief(logps))]
        values.append([expected + one - entropies[-1] for one in entropies])
    alike = [reference.Rollout(0, []) for _ in values]
    check_weights(trainer, output, reference.subtract_baseline(values, alike, "step"))


@pytest.mark.parametrize("way", ["environment", "function"])
def test_the_return_expected_under_the_tasks_belief_weighs_all_turns(tmp_path, way):
    """No forward pass is spent on it; columns may have the names of the function's arguments."""
    rows, kwargs = ROWS, {}
    if way == "function":
        rows = [{"prompt": QUESTION, "solution": "12", "hypotheses": NUMBERS, "steps": 7}] * 4
        kwargs = {"factory": Guess, "observation_likelihood": likelihood}
        kwargs |= {"hypotheses_column": "hypotheses"}
    trainer = game(tmp_path, rows=rows, **kwargs)
    output = played(trainer, rows, GAMES)
    assert trainer.scored.sets[0].answers == tuple(ORDER)
    assert [*trainer.scored.sets[0].members] == ANSWERS
    check_weights(trainer, output, weights_by_hand(expected_outcomes()))
    assert trainer.scored.likelihoods.num_tokens == 0
    metrics = {name: values[-1] for name, values in trainer._metrics["train"].items()}
    # the third rollout asks nothing; the others have 2, 1 and 3 results of tools
    assert metrics["barl/entropy_before"] == pytest.approx(math.log(4))
    assert metrics["barl/entropy_after"] == pytest.approx((math.log(3) + 2 * math.log(4)) / 4)
    assert metrics["barl/truth_mass_after"] == pytest.approx((1 / 3 + 2 / 4 + 1) / 4)
    for name in ("observations_contradicted", "truth_not_given", "scoring_tokens"):
        assert metrics[f"barl/{name}"] == 0
    assert "barl/discrepancy" not in metrics


@pytest.mark.parametrize("scale", [1, 1e-60, 1e60])
def test_the_prior_is_that_of_the_column(tmp_path, scale):
    rows = [row | {"prior": [scale * weight for weight in PRIOR]} for row in ROWS]
    trainer = game(tmp_path, rows=rows, prior_column="prior")
    output = played(trainer, rows, GAMES)
    check_weights(trainer, output, weights_by_hand(expected_outcomes([4.0, 1.0, 2.0, 3.0])))


def test_a_users_function_says_the_outcome_under_each_hypothesis_and_costs_are_kept(tmp_path):
    def near(answer, hypothesis):
        return 1.0 - abs(int(answer) - int(hypothesis)) / 12

    @cost
    def price(environments, **columns):
        return [-0.25 * (environment.answer is None) for environment in environments]

    trainer = game(tmp_path, outcome_under=near, reward_funcs=[price])
    output = played(trainer, ROWS, GAMES)
    values = []
    for member, logps in zip(ANSWERS, LOGPS, strict=True):
        belief = reference.task_posterior([1.0] * 4, logps, [[0.0] * 4] * len(logps), 1.0)[-1]
        outcomes = [-0.25 if member is None else near(ORDER[member], text) for text in ORDER]
        values.append(sum(b * v for b, v in zip(belief, outcomes, strict=True)))
    check_weights(trainer, output, weights_by_hand(values))


def test_both_is_what_the_model_found_likely_at_the_prompt_times_the_likelihoods(tmp_path):
    """It has read the later replies, and progress knows the truth: plain loops without both."""
    kept = []

    settings = {"belief": "both", "credit": "barl", "credit_options": None}
    trainer = game(tmp_path, value_normalization="none", **settings)
    trainer._batch_log.log_rollouts = lambda batch, rollouts, weighed: kept.append(rollouts)
    played(trainer, ROWS, GAMES)
    (rollouts,) = kept
    assert trainer.scored.likelihoods.num_tokens > 0
    for n, logps in enumerate(LOGPS):
        ell = rollouts.answer_logps[n, : len(logps) + 1].tolist()
        expected = reference.task_posterior([1.0] * 4, logps, [[0.0] * 4] * len(logps), 1.0, ell)
        got = rollouts.belief[n, : len(logps) + 1].tolist()
        assert [*map(pytest.approx, expected)] == got


@cost
def toll(completions, **columns):
    return [0.5] * len(completions)


@pytest.mark.parametrize(("paid", "share"), [((1, 0, 0), 0), ((1, 0, -1), 1 / 4), ((10, 3, -1), 1)])
def test_a_reward_that_its_expectation_does_not_replace_is_counted(tmp_path, paid, share):
    """`paid` for the true answer, another and none; a cost is part of both."""

    class Paid(KnowingGuess):
        def get_reward(self):
            answers = {self.secret: paid[0], None: paid[2]}
            return float(answers.get(self.answer, paid[1]))

    trainer = game(tmp_path, factory=Paid, reward_funcs=[toll])
    played(trainer, ROWS, GAMES)
    assert trainer._metrics["train"]["barl/outcome_mismatch"] == [share]
    assert ("barl/outcome_mismatch" in trainer._said) == bool(share)


@pytest.mark.parametrize("number", [-math.inf, math.nan])
def test_an_observation_that_no_hypothesis_allows_leaves_the_belief_and_is_counted(
    tmp_path, number
):
    """What is no number is refused at first, and counted later."""

    ill = task_function(lambda messages, texts: [number] * len(texts))
    trainer = game(tmp_path, factory=Guess, observation_likelihood=ill)
    if math.isnan(number):
        with pytest.raises(ValueError, match="step 0 of rollout 0"):
            played(trainer, ROWS, GAMES)
        trainer.state.global_step = 1
    output = played(trainer, ROWS, GAMES)
    check_weights(trainer, output, weights_by_hand([0.25, 0.25, 0.0, 0.25]))
    # ten steps, of which six brought an observation
    name = "observations_unusable" if math.isnan(number) else "observations_contradicted"
    expected = 10 / 6 if math.isnan(number) else 1.0
    assert trainer._metrics["train"][f"barl/{name}"][-1] == pytest.approx(expected)


def test_without_true_answers_the_votes_are_the_prior(tmp_path):
    """And no metric speaks of a truth."""
    rows = [{"prompt": QUESTION, "solution": None}] * 4
    fields = {"credit": "bayes", "belief": "task", "step_size": 99}
    trainer = agent(tmp_path, rows=rows, tools=[look], **fields)
    votes = [[call("look", key=1), rf"\boxed{{{k}}}"] for k in (5, 9, 5, 5)]
    output = played(trainer, rows, votes)
    assert not trainer.scored.sets[0].has_truth
    check_weights(trainer, output, weights_by_hand([0.75, 0.25, 0.75, 0.75]))
    metrics = trainer._metrics["train"]
    of_truths = ["truth_mass", "truth_mass_after", "outcome_gain"]
    assert not {f"barl/{name}" for name in of_truths} & {*metrics}


TEXTS = {"Which?": ["Is it 1? no\nIs it 2? yes\n\\boxed{2}", "Is it 3? no\n\\boxed{1}"] * 2}
TEXT_ROWS = [{"prompt": "Which?", "solution": "2", "numbers": ["1", "2", "3"]}] * 4


@pytest.fixture
def of_texts(make, tokenizer):
    segmenter = partial(delimited_steps, decode=tokenizer.decode, delimiter="\n")
    given = {"train_dataset": Dataset.from_list(TEXT_ROWS), "rollout_func": given_rollouts(TEXTS)}
    given |= {"step_segmenter": segmenter, "cls": Keeping}
    return lambda **more: make(**TASK | {"per_device_train_batch_size": 4} | given | more)


@pytest.mark.parametrize("belief", ["model", "task", "both"])
def test_the_expected_outcome_does_not_know_the_true_answer(of_texts, belief):
    """The same rollouts have the same weights, whichever of their answers is true or unknown."""
    said = task_function(lambda text, texts: [-0.1 * len(text) * int(n) for n in texts])
    tells = {} if belief == "model" else {"observation_likelihood": said}
    trainer = of_texts(belief=belief, **tells)
    weights = []
    for truth in ("1", "2", "3", None):
        rows = [row | {"solution": truth} for row in TEXT_ROWS]
        weights.append(output_of(trainer, rows)["advantages"])
    assert weights[0].abs().max() > 0.01
    for others in weights[1:]:
        torch.testing.assert_close(others, weights[0])


def test_predicted_rewards_take_the_place_of_progress(of_texts):
    """`barl` with the task's belief: eq. (error) and eq. (def_q_m) with these rewards, by hand."""
    rewards = [[[0.0, 1.0, 0.0], [1.0, 0.0, 0.0], [0.0] * 3], [[0.0, 0.0, 0.5], [0.0] * 3]] * 2
    trainer = of_texts(
        **{"credit": "barl", "value_normalization": "none", "consistency_beta": 2.0, "seed": 3},
        hypothesis_rewards=lambda steps, **columns: (
            rewards if len(steps) == 4 else [[[0.0] * 3] * len(steps[0])]
        ),
    )
    output = output_of(trainer, TEXT_ROWS)
    for n, predicted in enumerate(rewards):
        outcome = [1.0, 0.0, 1.0, 0.0][n]
        steps = len(predicted)
        belief = reference.task_posterior([1.0] * 3, [[0.0] * 3] * steps, predicted, 2.0)
        ahead = [[sum(row[i] for row in predicted[t:]) for i in range(3)] for t in range(steps)]
        values = [
            sum(b * (r + outcome) for b, r in zip(belief[t], ahead[t], strict=True))
            for t in range(steps)
        ]
        got = [output["advantages"][n][end - 1].item() for end in trainer.scored.step_ends[n]]
        assert got == pytest.approx(values, abs=1e-6)


@pytest.mark.filterwarnings("ignore:belief='task' without")
@pytest.mark.parametrize(
    ("credit", "belief"),
    [("barl", "model"), ("barl", "task"), ("belief_critic", "model"), ("bayes", "task")],
)
def test_a_batch_without_any_usable_hypothesis_has_no_weights(of_texts, credit, belief):
    trainer = of_texts(credit=credit, belief=belief, hypotheses_column=None)
    rows = [row | {"solution": "{"} for row in TEXT_ROWS]
    if credit == "bayes":  # it needs no truth, but some answer
        trainer.rollout_func = given_rollouts({"Which?": ["no idea"]})
    output = output_of(trainer, rows)
    assert not output["advantages"].any()
    assert "barl/no_hypothesis" in trainer._said


@pytest.mark.parametrize(("length", "belief"), [(3, "model"), (60, "model"), (60, "task")])
def test_lists_that_cost_more_than_the_rollouts_are_named(of_texts, length, belief):
    trainer = of_texts(credit="barl", belief=belief)
    numbers = [str(n) for n in range(1, length + 1)]
    output_of(trainer, [row | {"numbers": numbers} for row in TEXT_ROWS])
    rollouts = trainer.generated
    own = sum(map(len, [*rollouts.prompt_ids, *rollouts.completion_ids]))
    is_long = (length, belief) == (60, "model")
    states = sum(len(ends) + 1 for ends in trainer.scored.step_ends)
    asked = states * len(trainer.scorer.elicitation.token_ids)
    assert (trainer.scored.likelihoods.num_tokens - asked > 2 * own) == is_long
    assert ("long lists" in trainer._said) == is_long


# What makes a belief useless is said, and a belief that is not at fault is not blamed


def changed(change):
    """Likelihoods of which each number is changed."""
    function = task_function(lambda messages, texts: [*map(change, compared(messages, texts))])
    return {"factory": Guess, "observation_likelihood": function}


LACKING, UNLIKELY, NOTHING = (
    [row | {"numbers": numbers, "prior": prior} for row in ROWS]
    for numbers, prior in [(NUMBERS[:3], [1] * 3), (NUMBERS, [1, 1, 1, 0]), ([], [])]
)


@pytest.mark.parametrize(
    ("fault", "batches", "rows", "kwargs"),
    [
        ("", 3, ROWS, {}),
        ("", 3, LACKING, {"belief": "model"}),  # such a list need not be complete
        ("numbers", 1, ROWS, changed(math.exp)),
        ("numbers", 1, ROWS, changed(lambda logp: max(logp, -1e9))),
        ("belief_shift", 3, ROWS, changed(lambda logp: 0.0)),
        ("observations_contradicted", 3, ROWS, changed(lambda logp: -math.inf)),
        ("observations_unusable", 3, ROWS, changed(lambda logp: math.nan)),
        ("truth_not_given", 3, LACKING, {}),
        ("truth_not_given", 3, UNLIKELY, {"prior_column": "prior"}),
        ("unusable_lists", 3, NOTHING, {}),
        ("unusable_priors", 3, ROWS, {"prior_column": "none"}),
    ],
)
def test_a_dead_belief_is_named(tmp_path, fault, batches, rows, kwargs):
    """In these batches of rows; what is refused at first comes later."""
    trainer = game(tmp_path, rows=[row | {"none": PRIOR} for row in ROWS], **kwargs)
    trainer.state.global_step = 1
    for _ in range(batches):
        assert f"barl/{fault}" not in trainer._said
        played(trainer, rows, GAMES)
    said = [name for name in trainer._said if name.startswith("barl/")]
    assert said == [f"barl/{fault}"] * bool(fault)


def test_a_belief_is_not_blamed_while_all_rewards_tie(tmp_path):
    """Nor because each of many hypotheses has little, nor for what the credit does not use."""
    trainer, low = game(tmp_path), {"truth_mass": 5e-4, "belief_shift": 0.0, "outcome_gain": 0.5}

    def signs(outcomes, hypotheses=4.0):
        more = {"unusable_truths": 0.0, "hypotheses_per_prompt": hypotheses}
        return {name for name, sign in _bad_signs(trainer, low | more, outcomes).items() if sign}

    assert signs(torch.ones(8)) == set()
    assert signs(torch.arange(8.0)) == {"truth_mass", "belief_shift"}
    assert signs(torch.arange(8.0), hypotheses=2000.0) == {"belief_shift"}
    trainer.args.credit = "barl"
    assert signs(torch.arange(8.0)) == {*low}
