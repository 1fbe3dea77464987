"""Shards, and JSON that a script can hold."""

import json

from barl_trl.inspector import shards
from barl_trl.inspector.rows import groups_of
from barl_trl.inspector.shards import RunData, pairs, script_json

from .rollouts import METADATA, make_batch

HOSTILE = "</script><!--<script>\u2028\u2029\u202e\x00é𝒳"


def test_json_is_ascii_without_a_tag():
    text = script_json({HOSTILE: [HOSTILE]})
    assert text.isascii() and "<" not in text
    assert json.loads(text) == {HOSTILE: [HOSTILE]}


def run_of(steps, change=lambda records: records):
    run, written = RunData("a"), {}
    for step in steps:
        written |= run.add(groups_of(change(make_batch(step)), METADATA))
    return run, {name: json.loads(text) for name, text in written.items()}


def test_shards_hold_all_groups_once(monkeypatch):
    monkeypatch.setattr(shards, "SHARD_CHARACTERS", 6_000)
    run, written = run_of([0, 10])
    assert len(written) > 2 and sum(len(shard["groups"]) for shard in written.values()) == 6
    for number, (step, group, *_, name) in enumerate(run.list["heads"]):
        found = written[name]["groups"][number - written[name]["first"]]
        assert (found["step"], found["group"]) == (step, group)
    assert run.list["group"] == [g for g in range(6) for _ in range(4)]
    assert len(run.keys) == 24


def test_scale_covers_nearly_all_weights():
    run, written = run_of([0])
    [shard] = written.values()
    rollouts = [r for group in shard["groups"] for r in group["rollouts"]]
    largest = max(abs(w) for r in rollouts for w in [*r["weights"], r["advantage"]])
    assert 0.5 * largest < run.bound() <= 1.05 * largest
    assert RunData("a").bound() == 1.0


def test_pairs_join_equal_completions_first_then_prompts():
    def shuffled(records):
        changed = records[::-1]  # the same rollouts, another order
        changed[0] = changed[0] | {"tokens": ["other"] * len(changed[0]["tokens"])}
        return changed[:-1]

    ours, theirs = run_of([0])[0], run_of([0], shuffled)[0]
    found = pairs(ours, theirs)
    assert found["same"] == [0] + [1] * 10 + [0]
    assert found["other"][-1] == 0  # the one that says something else, to the same prompt
    assert found["other"][0] == -1 and len({*found["other"]}) == 12
    for row, other in enumerate(found["other"]):
        if other >= 0:
            assert ours.keys[row][0] == theirs.keys[other][0]
    # a game's prompt need not name its secret
    games = run_of([0], lambda records: [record | {"solution": "other"} for record in records])[0]
    assert {*pairs(ours, games)["other"]} == {-1}
