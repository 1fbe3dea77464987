"""Shards, and JSON that a script can hold."""

import json

from barl_trl.report.inspector import shards
from barl_trl.report.inspector.rows import groups_of
from barl_trl.report.inspector.shards import RunData, pairs, script_json

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
    return run, written | dict(run.open_list())


def test_shards_hold_all_groups_once(monkeypatch):
    monkeypatch.setattr(shards, "SHARD_CHARACTERS", 6_000)
    run, written = run_of([0, 10])
    data = [json.loads(text) for name, text in written.items() if "list" not in name]
    assert len(data) > 2 and sum(len(shard["groups"]) for shard in data) == 6
    [listed] = [json.loads(written[name]) for name in run.lists()]
    for number, (step, group, *_, name) in enumerate(listed["heads"]):
        shard = json.loads(written[name])
        found = shard["groups"][number - shard["first"]]
        assert (found["step"], found["group"]) == (step, group)
    assert run.rollouts == len(listed["group"]) == 24


def test_full_lists_are_closed(monkeypatch):
    monkeypatch.setattr(shards, "LINES_PER_LIST", 8)
    run, written = run_of([0, 10])
    lists = [json.loads(written[name]) for name in run.lists()]
    assert [len(part["group"]) for part in lists] == [8, 8, 8]
    assert [g for part in lists for g in part["group"]] == [g for g in range(6) for _ in range(4)]


def test_scale_covers_nearly_all_weights():
    run, written = run_of([0])
    [shard] = [json.loads(text) for name, text in written.items() if "list" not in name]
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
