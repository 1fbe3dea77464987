"""The list: filters, order, search, export, and the comparison of two runs."""

import json

import pytest

from barl_trl.inspector.derived import derive
from barl_trl.inspector.filters import mean_weight

from ..inspector.rollouts import METADATA

pytestmark = pytest.mark.browser


def listed(shown):
    return shown.page.evaluate(
        "barl.store.select(barl.store.parse()).map(r => Object.values(barl.store.placeOf(r)))"
    )


def place(record):
    return [record["step"], record["group"], record["rollout"]]


def means(shown):
    found = derive(shown.records, METADATA)
    return {tuple(place(r)): mean_weight(r, d) for r, d in zip(shown.records, found, strict=True)}


def test_filters_select_what_they_say(shown):
    mean = means(shown)
    right = {tuple(place(r)): r["member"] == 0 for r in shown.records}
    groups = {}
    for record in shown.records:
        groups.setdefault((record["step"], record["group"]), set()).add(record["outcome"])
    expected = {
        "all": lambda r: True,
        "wrong_praised": lambda r: not right[tuple(place(r))] and mean[tuple(place(r))] > 0,
        "right_blamed": lambda r: right[tuple(place(r))] and mean[tuple(place(r))] < 0,
        "tied_spread": lambda r: len(groups[r["step"], r["group"]]) == 1,
        "truncated": lambda r: r["is_cut_off"],
        "no_answer": lambda r: r["answer"] is None,
        "timed_out": lambda r: r["reason"] == "timeout",
        "wrong": lambda r: r["member"] != 0,
    }
    page = shown.at()
    for name, keeps in expected.items():
        page.select_option("#filter", name)
        shown.wait_for(f"barl.store.parse().f === '{name}'")
        wanted = [place(r) for r in shown.records if keeps(r)]
        assert listed(shown) == wanted and wanted
        assert page.locator("#count").inner_text() == f"{len(wanted)} of 36 rollouts"


def test_order(shown):
    mean = means(shown)
    keys = {
        "tokens": lambda r: -len(r["tokens"]),
        "cost": lambda r: -r["scored_tokens"],
        "praised": lambda r: -round(mean[tuple(place(r))], 4),
        "blamed": lambda r: round(mean[tuple(place(r))], 4),
    }
    for name, key in keys.items():
        shown.at(f"#/?sort={name}")
        assert listed(shown) == [place(r) for r in sorted(shown.records, key=key)]


def test_search_finds_prompts_answers_and_ids(shown):
    page = shown.at()
    page.keyboard.press("/")
    page.keyboard.type("IS 2 AND 10")
    shown.wait_for("barl.store.parse().q === 'IS 2 AND 10'")
    assert listed(shown) == [[10, 2, n] for n in range(4)]
    prompt_id = shown.records[0]["prompt_id"]
    shown.at(f"#/?q={prompt_id}")
    assert listed(shown) == [[0, 0, n] for n in range(4)]
    shown.at("#/?q=other1")
    assert listed(shown) == [place(r) for r in shown.records if r["answer"] == "other1"]


def test_export_has_the_selection_and_nothing_else(shown, tmp_path):
    page = shown.at("#/?f=wrong")
    with page.expect_download() as waiting:
        page.click("#export")
    waiting.value.save_as(tmp_path / "rollouts.jsonl")
    lines = [json.loads(line) for line in (tmp_path / "rollouts.jsonl").read_text().splitlines()]
    wrong = [r for r in shown.records if r["member"] != 0]
    assert [place(line) for line in lines] == [place(r) for r in wrong]
    for line, record in zip(lines, wrong, strict=True):
        assert line["completion"] == "".join(record["tokens"])
        assert (line["prompt"], line["token_ids"]) == (record["prompt"], record["token_ids"])
        assert line["w"][1] == pytest.approx(record["posterior"][1], abs=1e-5)


def flipped(records):
    return [r | {"token_weights": [-w for w in r["token_weights"]]} for r in records]


def test_two_runs_on_the_same_rollouts(make_shown):
    shown = make_shown({"steps": [0]}, {"steps": [0], "change": flipped})
    page = shown.at("#/step/0/group/1/rollout/2?t=1")
    assert shown.texts(".run-name") == ["run0", "run1"]
    weight = shown.by_place[0, 1, 2]["token_weights"][3]
    said = shown.texts(".arithmetic p:has-text('Weight in the policy')")
    for text, sign in zip(said, (1, -1), strict=True):
        assert f"{sign * weight:+.3f}".replace("-", "−") in text
    page.goto(shown.address + "#/step/0/group/1")
    page.wait_for_selector("figure.matrix >> nth=2")
    first, _, second = shown.texts("figure.matrix strong")
    assert (first, second) == ("barl: weight of each part", "run1: weight of each part")
    shown.at("#/?f=differ")
    mean = means(shown)
    assert len(listed(shown)) == sum(abs(x) > 1e-4 for x in mean.values())
