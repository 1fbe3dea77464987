"""Records as JSON."""

import numpy as np

from barl_trl.report.inspector.rows import COLUMNS, groups_of

from .rollouts import METADATA, make_batch, make_record


def test_groups_keep_order_and_everything_of_their_rollouts():
    records = make_batch(10)
    groups = groups_of(records, METADATA)
    assert [group.head[:3] for group in groups] == [
        [10, g, records[4 * g]["prompt_id"]] for g in range(3)
    ]
    found = [rollout for group in groups for rollout in group.details["rollouts"]]
    for record, rollout in zip(records, found, strict=True):
        for name in ("rollout", "tokens", "token_ids", "step_ends", "hypotheses", "answer"):
            assert rollout[name] == record[name]
        np.testing.assert_allclose(rollout["logps"], record["token_logps"], atol=1e-4)
        np.testing.assert_allclose(rollout["w"], record["posterior"], atol=1e-5)
        assert rollout["token_weights"] is None  # those of steps say all
        np.testing.assert_allclose(rollout["closing"], record["token_weights"][-1], atol=1e-5)


def test_line_has_a_value_for_each_column_but_the_group():
    [group] = groups_of([make_record(3)], METADATA)
    [line] = group.lines
    assert len(line) == len(COLUMNS) - 1
    shown = dict(zip(COLUMNS[1:], line, strict=True))
    assert (shown["tokens"], shown["cost"], shown["answer"]) == (13, 103, "0")


def test_weights_that_differ_inside_a_step_are_kept():
    record = make_record(1)
    record["token_weights"][0] += 1
    [group] = groups_of([record], METADATA)
    kept = group.details["rollouts"][0]["token_weights"]
    np.testing.assert_allclose(kept, record["token_weights"], atol=1e-4)


def test_snippets_leave_the_chat_template_out():
    heads = [group.head[3] for group in groups_of(make_batch(5), METADATA)]
    assert heads == [f"What is {g} and 5?" for g in range(3)]
    [alone] = groups_of([make_record(0, prompt="one prompt\n")], METADATA)
    assert alone.head[3] == "one prompt"
    prompts = ("a\nb\n", "a\nb\nc\n")
    records = [make_record(n, group=n, prompt=prompt) for n, prompt in enumerate(prompts)]
    assert [group.head[3] for group in groups_of(records, METADATA)] == ["a\nb", "a\nb\nc"]


def test_numbers_are_rounded_and_finite():
    inf, nan = float("inf"), float("nan")
    record = make_record(0, steps=1) | {
        "token_logps": [-0.123456789, -1e-9, -inf, nan],
        "rewards": [nan, 1 / 3],
        "importance_ratios": None,
    }
    [rollout] = groups_of([record], METADATA)[0].details["rollouts"]
    assert rollout["logps"] == [-0.1235, 0.0, None, None]
    assert (rollout["rewards"], rollout["ratios"]) == ([None, 0.33333], None)


def test_a_run_whose_weights_are_nan_has_rows():
    record = make_record(0, steps=1)
    record |= {"token_weights": [float("nan")] * len(record["tokens"])}
    [group] = groups_of([record], METADATA)
    assert group.lines[0][COLUMNS.index("mean") - 1] is None
