"""The paper's experiments: each runs small, and its claims hold (slow)."""

import json
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from barl_trl.plausibility.elicitation import DEFAULT_ELICITATION
from experiments.paper import (
    calibration,
    efficiency,
    reflections,
    report,
    tree,
    triplets,
    triplets_lm,
    values,
)

from .. import reference
from ..evaluation.files import problems, response, write_responses
from ..test_posterior import BETAS, check, padded, rollout


def results(folder, name):
    return json.loads((folder / f"{name}.json").read_text())


@pytest.fixture
def sampled(tmp_path):
    """Two models' samples of three problems."""
    rewards = {"barl": [[1, 0, 0], [0, 0, 0], [1, 1, 1]], "grpo": [[0, 0, 0]] * 3}
    return [write_responses(tmp_path / name, problems(r)) for name, r in rewards.items()]


def test_efficiency_is_the_mean_over_all_draws(sampled, tmp_path):
    greedy = [write_responses(tmp_path / name, problems([[1], [0], [1]])) for name in ("g", "h")]
    options = ["--sampled", *sampled, "--greedy", *greedy, "--max_k", 2]
    efficiency.main([*map(str, options), "--output_dir", str(tmp_path / "out")])
    found = {
        (row["with_greedy"], row["k"]): (row["accuracy"], row["tokens"])
        for row in results(tmp_path / "out", "efficiency")["rows"]
        if row["model"] == "barl"
    }
    drawn = {1: (1 / 3 + 0 + 1) / 3, 2: (2 / 3 + 0 + 1) / 3}
    expected = {(False, k): (pytest.approx(mean), 10 * k) for k, mean in drawn.items()}
    assert found == expected | {(True, k): (pytest.approx(2 / 3), 10 * k) for k in drawn}
    assert len([*(tmp_path / "out").glob("*.png")]) == 2


def test_reflections_are_counted_by_wrong_responses(sampled, tmp_path):
    keywords = tmp_path / "keywords.txt"
    keywords.write_text("SO it\n\n  wait \n")
    options = [*map(str, sampled), "--keywords", str(keywords)]
    reflections.main([*options, "--output_dir", str(tmp_path / "out")])
    rows = [r for r in results(tmp_path / "out", "reflections")["rows"] if r["model"] == "barl"]
    counts = [(row["difficulty"], row["num_problems"], row["frequency"]) for row in rows]
    assert counts == [(0, 1, 1.0), (1, 0, None), (2, 1, 1.0), (3, 1, 1.0)]
    assert (tmp_path / "out" / "reflections.png").exists()


# Beliefs


@given(st.lists(rollout(), min_size=1, max_size=4), BETAS, st.tuples(*[st.floats(-1, 2)] * 4))
def test_bayesian_values_are_the_recursion_in_plain_loops(rollouts, beta, outcomes):
    ell, masks = padded(rollouts, fill=-3.3)
    v = torch.tensor(outcomes[: len(rollouts)], dtype=torch.float64)
    found = values.bayesian_values(ell, v, beta=beta, **masks)
    pairs = zip(rollouts, outcomes, strict=False)
    check(found, [reference.bayesian_values(r, o, beta) for r, o in pairs])


STEP = 8
TEXTS = ["One and one: 1 + 1 = 2, thus \\boxed{2}.", "It is \\boxed{11}.", ""]
RESPONSES = [response(5, n, n == 0, text=text) for n, text in enumerate(TEXTS)]


def log_likelihoods(model, tokenizer, prompt, text):
    """`[state][hypothesis]`: each answer's mean token log-probability, one forward for each."""
    encode, chain, rows = tokenizer.encode, tokenizer.encode(text), []
    for end in [0, *range(STEP, len(chain), STEP), *([len(chain)] if chain else [])]:
        state = [*encode(prompt), *chain[:end], *encode(DEFAULT_ELICITATION)]
        rows.append([])
        for answer in ("2", "11"):
            ids = encode(f"{{{answer}}}.")
            start = 1 if tokenizer.decode(ids[:1]) == "{" else 0
            with torch.no_grad():
                logps = model(torch.tensor([state + ids])).logits[0].double().log_softmax(-1)
            found = [logps[len(state) + n - 1, ids[n]].item() for n in range(start, len(ids))]
            rows[-1].append(sum(found) / len(found))
    return rows


def test_values_are_those_of_states_and_answers_alone(model, model_path, tokenizer, tmp_path):
    unusable = [response(6, 0, 0, text="Hm.", solution="\\frac{1")]
    folder = write_responses(tmp_path / "m", {5: RESPONSES, 6: unusable}, model=model_path)
    out = tmp_path / "out"
    values.main([str(folder), "--step_size", str(STEP), "--output_dir", str(out)])
    records = [json.loads(line) for line in (out / "m" / "math500.jsonl").read_text().splitlines()]
    for record, one in zip(records, RESPONSES, strict=True):
        ell = log_likelihoods(model, tokenizer, one.prompt, one.response)
        v = one.reward
        assert record["answers"] == ["2", "11"] and "".join(record["steps"]) == one.response
        for name, expected in (
            ("posterior", reference.posterior(ell, 1.0)),
            ("bayesian_values", reference.bayesian_values(ell, v, 1.0)),
            ("posterior_weighted_values", reference.posterior_weighted_values(ell, [v, v], 1.0)),
        ):
            found = torch.tensor(record[name])
            torch.testing.assert_close(found, torch.tensor(expected), atol=1e-4, rtol=1e-3)
    assert len([*(out / "m" / "math500" / "beliefs").glob("*.parquet")]) == 1
    assert results(out, "values")["rows"] and len([*out.glob("*.png")]) == 2


def test_calibration_sets_beliefs_beside_continuations(model_path, tmp_path):
    folder = write_responses(tmp_path / "m", {5: RESPONSES[:2]}, model=model_path)
    options = ["--step_size", "16", "--continuations", "2", "--max_tokens", "20"]
    calibration.main([str(folder), *options, "--output_dir", str(tmp_path / "out")])
    rows = results(tmp_path / "out", "calibration")["rows"]
    assert {row["variant"] for row in rows} >= calibration.VARIANTS.keys()
    assert all(row["num_points"] > 0 and 0 <= row["gap"] <= 1 for row in rows)
    assert calibration.squared_error(0.5, 0.5, 2) == -0.25  # which noise alone explains


# The paper's examples


@given(st.lists(st.integers(0, 2), min_size=29, max_size=29), st.integers(0, 2))
def test_the_value_of_an_action_is_the_share_of_open_triplets_that_still_come(actions, prompt):
    tokens = torch.tensor([actions])
    sets = triplets.hypotheses(torch.tensor([prompt]), triplets.ALL_TRIPLETS)
    text = "".join(map(str, actions))
    for t, value in enumerate(triplets.step_values(tokens, sets)[0].tolist()):
        named = ["".join(map(str, one)) for one in sets[0].tolist()]
        left = [one for one in named if one not in text[:t]]
        share = sum(one in text for one in left) / len(left) if named[0] in left else 0.0
        assert value == pytest.approx(share, abs=1e-6)


def test_the_didactic_example_runs(tmp_path):
    options = ["--seeds", "1", "--output_dir", str(tmp_path)]
    triplets.main([*options, "--iterations", "1", "--more_arms"])
    assert len(results(tmp_path, "results")["records"]) == 7 * 2
    triplets_lm.main([*options, "--quick"])
    assert len([*(tmp_path / "quick").glob("*.json")]) == 3
    assert (tmp_path / "triplets.png").exists()


@pytest.mark.slow
def test_barl_generalises_and_rl_does_not(tmp_path):
    """The claims of the paper's didactic example, in full."""
    triplets.main(["--seeds", "1", "--output_dir", str(tmp_path)])
    last = {r["arm"]: r for r in results(tmp_path, "results")["records"] if r["iteration"] == 1600}
    assert min(r["train_accuracy"] for r in last.values()) > 0.9
    assert min(last[arm]["unseen_accuracy"] for arm in ("barl-27", "barl-3")) > 0.9
    assert last["rl"]["unseen_accuracy"] < 0.7


@pytest.mark.parametrize("back", ["root", "parent"])
def test_no_policy_tries_the_leaves_of_the_tree_sooner(back):
    """By dynamic programming over beliefs, of all policies."""
    solved = tree.DecisionTree(3, back)

    def sooner(node, untried, steps):
        """The most of the untried leaves that any policy reaches."""
        if not steps:
            return 0
        moves = set(solved.moves[node].values())
        return max((n in untried) + sooner(n, untried - {n}, steps - 1) for n in moves)

    fewest = tree.fewest_steps(solved)
    for horizon in range(9):
        reached = sooner(0, frozenset(solved.leaves), horizon)
        assert tree.adaptive_return(fewest, horizon) * len(solved.leaves) == reached


def test_the_tree_is_solved_and_drawn(tmp_path):
    tree.main(["--most", "3", "--output_dir", str(tmp_path)])
    found = results(tmp_path, "results")["trees"]
    assert [one["adaptive"] for one in found] == [1.0] * 4
    for one in found:
        assert one["single_pass_markovian"] < one["stochastic_markovian"] < 1
    policy = torch.full((7, 3), 0.5, dtype=torch.float64)
    policy[:, 2] = 1.0  # leaves have no other action
    passes = tree.markovian_return(tree.DecisionTree(3), policy, horizon=11)
    assert passes.item() == pytest.approx(float(tree.reset_return(4, 4)))
    assert math.isclose(found[2]["stochastic_markovian"], 175 / 256)
    assert (tmp_path / "tree.png").exists()


@pytest.mark.slow
def test_the_papers_table_is_made_at_the_scale_of_the_demo(tmp_path, monkeypatch):
    monkeypatch.setattr(report, "_NUM_EVALUATED", 20)
    report.main(["--seeds", "1", "--max_steps", "2", "--output_dir", str(tmp_path)])
    text = (tmp_path / "report.md").read_text()
    assert text.count("tiny-search, ") == 5 and text.count("](figures/") == 6
    for line in text.splitlines():
        if line.startswith("!["):
            assert (tmp_path / line.split("](")[1].rstrip(")")).exists()
