"""The numbers of each panel, beside those of plain loops."""

import math

import pytest

from .. import reference
from ..inspector.rollouts import Recorder

pytestmark = pytest.mark.browser
PLACE = (10, 1, 3)
ADDRESS = "#/step/10/group/1/rollout/3"


def number(text):
    return float(text.replace("−", "-").replace("+", ""))


@pytest.fixture
def record(shown):
    return shown.by_place[PLACE]


def test_arithmetic_of_a_step(shown, record):
    page, t = shown.at(f"{ADDRESS}?t=1"), 1
    ell, v = record["answer_logps"], record["outcome"]
    w, q = reference.posterior(ell, 1.0), reference.q_values(ell, [v] * 3)
    rows = page.locator("table.sum tbody tr")
    for i in range(3):
        shown_numbers = [number(text) for text in rows.nth(i).locator("td").all_inner_texts()]
        p = [math.exp(row[i]) for row in ell]
        expected = [p[t], p[-1], v, q[t][i], w[t][i], w[t][i] * q[t][i]]
        assert shown_numbers == pytest.approx(expected, abs=6e-4)
    total = sum(a * b for a, b in zip(w[t], q[t], strict=True))
    assert number(page.locator("td.total").inner_text()) == pytest.approx(total, abs=6e-4)
    assert f"= {total:.3f}".replace("-", "−") in page.locator(".equation").inner_text()


def test_a_recorded_value_that_is_not_the_computed_one_is_said(make_shown, tokenizer, tmp_path):
    records, metadata = Recorder(tokenizer, tmp_path / "trained").records()
    wrong, right = [r for r in records if r["group"] == 0 and r["step_values"]][:2]
    wrong["step_values"][-1] += 0.25
    shown = make_shown({"steps": [1], "change": lambda _: records, "metadata": metadata})
    for record, said in ((wrong, 1), (right, 0)):
        page = shown.at(f"#/step/1/group/0/rollout/{record['rollout']}?t=0")
        assert page.locator(".equation").count() == 1
        text = "The recorded values differ by up to 0.250 from those that this page computes"
        assert page.get_by_text(text).count() == said


def test_other_credits_of_the_step(shown, record):
    page = shown.at(f"{ADDRESS}?t=1")
    cells = {
        row.locator("th").inner_text().split()[0]: number(row.locator("td").first.inner_text())
        for row in page.locator("table.methods tbody tr").all()
    }
    group = [r for r in shown.records if (r["step"], r["group"]) == PLACE[:2]]
    outcomes, v = [r["outcome"] for r in group], record["outcome"]
    p = [math.exp(row[0]) for row in record["answer_logps"]]
    others = (sum(outcomes) - v) / (len(outcomes) - 1)
    assert cells["grpo"] == pytest.approx(reference.standardized(v, outcomes), abs=6e-4)
    assert cells["rloo"] == pytest.approx(v - others, abs=6e-4)
    assert cells["progress"] == pytest.approx(p[-1] - p[1] + v, abs=6e-4)
    assert cells["gae"] == pytest.approx(v - p[1], abs=6e-4)


def test_river_shows_the_posterior_and_marks_the_truth(shown, record):
    page = shown.at(f"{ADDRESS}?t=1")
    w = reference.posterior(record["answer_logps"], 1.0)
    found = page.locator(".hypotheses li").all()
    items = {item.locator("bdi").inner_text(): item for item in found}
    for i, answer in enumerate(record["hypotheses"]):
        before, after = items[answer].locator(".value").inner_text().split(" → ")
        assert number(before) == pytest.approx(w[1][i], abs=6e-3)
        assert number(after) == pytest.approx(w[2][i], abs=6e-3)
        assert ("truth" in items[answer].inner_text()) == (i == 0)
    band = page.locator(".band.h0").get_attribute("d").strip("MZ").split("L")
    heights = [1 - float(point.split(",")[1]) / 200 for point in band[: len(w)]]
    assert heights == pytest.approx([row[0] for row in w], abs=1e-3)


def test_text_and_river_are_linked_both_ways(shown, record):
    page = shown.at(ADDRESS)
    page.locator(".token[data-k='4']").hover()
    assert page.locator(".step.at").get_attribute("data-t") == "1"
    ends = record["step_ends"]
    width = 1000 / len(record["tokens"])
    here = page.locator(".here")
    assert float(here.get_attribute("x")) == pytest.approx(width * ends[0])
    box = page.locator(".river").bounding_box()
    page.mouse.move(box["x"] + box["width"] * 0.98, box["y"] + 50)
    assert page.locator(".step.at").get_attribute("data-t") == str(len(ends) - 1)
    page.mouse.click(box["x"] + box["width"] * 0.98, box["y"] + 50)
    page.wait_for_selector(f"h3:text-matches('^Part {len(ends)}: ')")


def test_hover_tells_of_a_token(shown, record):
    page = shown.at(ADDRESS)
    page.locator(".token[data-k='4']").hover()
    names, values = shown.texts("#tip dt"), shown.texts("#tip dd")
    said = dict(zip(names, values, strict=True))
    assert said["id"] == str(record["token_ids"][4])
    assert number(said["log-prob"].split()[0]) == pytest.approx(record["token_logps"][4], abs=6e-4)
    assert number(said["ratio"]) == pytest.approx(record["importance_ratios"][4], abs=6e-4)
    assert number(said["weight"]) == pytest.approx(record["token_weights"][4], abs=6e-4)
    p = [math.exp(row[0]) for row in record["answer_logps"]]
    [truth] = [said[name] for name in names if name.endswith("truth")]
    assert [number(x) for x in truth.split(" → ")] == pytest.approx(p[1:3], abs=6e-4)


SHARES = "all => all.map(e => [e.className, e.style.getPropertyValue('--x')])"


def test_text_is_coloured_by_what_is_chosen(shown, record):
    w = reference.posterior(record["answer_logps"], 1.0)
    entropy = [-sum(x * math.log(x) for x in row) / math.log(3) for row in w]
    ratio = [math.log(x) / math.log(2) for x in record["importance_ratios"]]
    expected = {
        "truth": [round(100 * w[k // 3 + 1][0]) for k in range(6)],
        "entropy": [round(100 * entropy[k // 3 + 1]) for k in range(6)],
        "ratio": [round(100 * min(1, abs(ratio[k]))) for k in range(6)],
    }
    for color, shares in expected.items():
        found = shown.at(f"{ADDRESS}?color={color}").locator(".token").evaluate_all(SHARES)
        assert [float(x.strip("%")) for _, x in found[:6]] == pytest.approx(shares, abs=1)
        if color == "ratio":
            signs = ["neg" in name for name, _ in found[:6]]
            assert signs == [x < 0 for x in ratio[:6]]


def test_group_has_weights_and_flat_advantages_on_one_scale(shown):
    page = shown.at("#/step/10/group/1")
    weights, flat = (page.locator("table.heat").nth(n) for n in range(2))
    bound = page.evaluate("barl.store.runs[0].bound")
    for n in range(4):
        record = shown.by_place[10, 1, n]
        own = (weights, record["token_weights"][::3]), (flat, [record["advantage"]] * 5)
        for table, values in own:
            cells = table.locator(f"td[data-r='{n}']")
            assert cells.count() == len(record["step_ends"])
            for t, (name, share) in enumerate(cells.evaluate_all(SHARES)):
                told = number(cells.nth(t).get_attribute("title").split(": ")[1])
                assert told == pytest.approx(values[t], abs=6e-3)
                wanted = min(100, 100 * abs(values[t]) / bound)
                assert float(share.strip("%")) == pytest.approx(wanted, abs=1)
                assert ("neg" in name) == (values[t] < 0)


def test_thoughts_fold_and_formulas_are_drawn(shown):
    page = shown.at("#/step/0/group/1/rollout/1")
    thought = page.locator("details.thought")
    assert thought.locator(".token").all_inner_texts() == ["<think>", "hm ", "</thi", "nk>"]
    page.click("#fold")
    assert not thought.locator(".token").first.is_visible()
    page.click("#maths")
    page.wait_for_selector(".tokens math msup")


EDGES = """const draw = CanvasRenderingContext2D.prototype.fillText; window.edges = [];
CanvasRenderingContext2D.prototype.fillText = function (text, x, y) {
  const half = this.textAlign === "center" ? this.measureText(text).width / 2 : 0;
  edges.push(x - half, this.canvas.width - this.getTransform().e - x - half);
  draw.call(this, text, x, y); };"""


def test_curves_are_drawn_over_training(shown):
    shown.page.add_init_script(EDGES)
    page = shown.at()
    assert min(page.evaluate("edges")) >= 0  # every label is whole
    labels = [c.get_attribute("aria-label") for c in page.locator(".curve").all()]
    of_group = [r for r in shown.records if r["step"] == 20 and r["member"] == 0]
    share = 100 * len(of_group) / 12
    assert any(x.startswith("right:") and f"to {share:.1f} % at step 20" in x for x in labels)
    assert page.locator(".curve canvas").count() == len(labels) >= 4
