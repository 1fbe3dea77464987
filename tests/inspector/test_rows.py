"""Records as JSON."""

import numpy as np

from barl_trl.inspector.rows import COLUMNS, groups_of

from .rollouts import METADATA, make_batch, make_record, metadata_of


def test_groups_keep_order_and_everything_of_their_rollouts():
    records = make_batch(10)
    groups = groups_of(records, METADATA)
    heads = [[10, g, records[4 * g]["prompt_id"]] for g in range(3)]
    assert [group.head[:3] for group in groups] == heads
    found = [rollout for group in groups for rollout in group.details["rollouts"]]
    for record, rollout in zip(records, found, strict=True):
        for name in ("rollout", "tokens", "token_ids", "step_ends", "hypotheses", "answer"):
            assert rollout[name] == record[name]
        np.testing.assert_allclose(rollout["logps"], record["token_logps"], atol=1e-4)
        np.testing.assert_allclose(rollout["w"], record["posterior"], atol=1e-5)
        assert rollout["token_weights"] is None  # those of steps say all
        np.testing.assert_allclose(rollout["closing"], record["token_weights"][-1], atol=1e-5)


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
    record = make_record(0, steps=1) | {"token_logps": [-0.123456789, -1e-9, -inf, nan]}
    record |= {"rewards": [nan, 1 / 3], "importance_ratios": None}
    [rollout] = groups_of([record], METADATA)[0].details["rollouts"]
    assert rollout["logps"] == [-0.1235, 0.0, None, None]
    assert (rollout["rewards"], rollout["ratios"]) == ([None, 0.33333], None)


def test_of_many_hypotheses_the_likeliest_are_kept_and_the_rest_are_summed():
    record = make_record(2, size=300, outcome=1.0) | {"member": 7}
    [plain] = groups_of([make_record(2, size=12)], METADATA)[0].details["rollouts"]
    assert (plain["size"], plain["rest"], len(plain["hypotheses"])) == (12, None, 12)
    w = np.array(record["posterior"])
    for has_truth in (True, False):
        group = groups_of([record | {"has_truth": has_truth}], METADATA)[0]
        [rollout] = group.details["rollouts"]
        most = {*np.argsort(-w.max(axis=0))[:10].tolist(), 7, *([0] if has_truth else [])}
        shown = [record["hypotheses"][i] for i in sorted(most)]
        assert rollout["hypotheses"] == shown and rollout["size"] == 300
        assert shown[rollout["member"]] == record["hypotheses"][7]
        assert rollout["rest"]["number"] == 300 - len(shown)
        whole = np.sum(rollout["w"], axis=1) + rollout["rest"]["w"]
        np.testing.assert_allclose(whole, 1.0, atol=1e-3)
        assert len(str(rollout)) < 6_000  # 300 hypotheses at 5 states would be 20,000 characters
        if has_truth:
            shares = np.multiply(rollout["w"][:-1], rollout["q"]).sum(axis=1)
            values = shares + rollout["rest"]["wq"]
            np.testing.assert_allclose(values, record["step_values"], atol=1e-3)


def test_what_was_ruled_out_is_named_if_the_task_says_it():
    record = make_record(0, steps=2, size=9)
    record["posterior"] = [[1 / 9] * 9, [0.0] * 8 + [1.0], [0.0] * 8 + [1.0]]
    [rollout] = groups_of([record], metadata_of(belief="task"))[0].details["rollouts"]
    assert rollout["ruled_out"] == [[8, 9, record["hypotheses"][:6]], [0, 1, []]]
    assert rollout["belief"] == "task"
    [rollout] = groups_of([record], METADATA)[0].details["rollouts"]
    assert rollout["ruled_out"] is None


def test_a_run_whose_weights_are_nan_has_rows():
    record = make_record(0, steps=1)
    record |= {"token_weights": [float("nan")] * len(record["tokens"])}
    [group] = groups_of([record], METADATA)
    assert group.lines[0][COLUMNS.index("mean") - 1] is None


def test_steps_are_turns_lines_or_parts():
    ends, turns = [1, 2], {"turn_ends": [1, 2], "own_tokens": [1, 1], "observed_tools": [[], []]}

    def units(*texts):
        records = [make_record(n, steps=2) | {"step_ends": ends} for n, _ in enumerate(texts)]
        for record, tokens in zip(records, texts, strict=True):
            record["tokens"][:2] = tokens
        records[0] |= turns if len(texts) == 3 else {}
        [group] = groups_of(records, METADATA)
        return [rollout["unit"] for rollout in group.details["rollouts"]]

    assert units(["a\n", "b"], ["a", "\nb"]) == ["line", "line"]
    assert units(["a\n", "b"], ["a ", "b"]) == ["part", "part"]  # one word in a group
    assert units(["a\nb\n", "c"], ["a\n", "b"]) == ["part", "part"]
    assert units(["a ", "b"], ["a\n", "b"], ["a\n", "b"]) == ["turn", "line", "line"]
