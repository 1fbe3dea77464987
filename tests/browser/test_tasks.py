"""Rollouts whose belief comes from the task, as training recorded them."""

import math
from itertools import pairwise

import pytest

from barl_trl.inspector.site import write_page

from ..inspector.rollouts import TaskRecorder, foretold, record_games
from .conftest import Shown
from .test_access import check_access
from .test_list import listed
from .test_panels import number

pytestmark = [pytest.mark.browser, pytest.mark.filterwarnings("ignore:.*docs/")]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Makes the page of games, or of texts, once for each kind."""
    pages = {}

    def make(name, **settings):
        if name not in pages:
            folder = tmp_path_factory.mktemp(name)
            records = record_games(folder, **settings)
            write_page([folder / "beliefs"], [name], folder / "page")
            pages[name] = (folder / "page" / "index.html").as_uri(), records
        return pages[name]

    return make


@pytest.fixture
def games(made, watched):
    return Shown(watched, *made("games", credit_options={"information_weight": 1.0}))


def place(n, t=0):
    return f"#/step/1/group/0/rollout/{n}?t={t}"


def entropy(row):
    return -sum(b * math.log(b) for b in row if b)


def cells(row):
    return [number(text) if text else None for text in row.locator("td").all_inner_texts()]


def test_the_value_of_bayes_is_shown_with_its_numbers(games):
    record, t = games.records[0], 1
    page = games.at(place(0, t))
    assert games.texts("table.sum thead th") == ["hypothesis", "b(1)", "b(5)", "v", "b(5) · v"]
    before, last = record["posterior"][t], record["posterior"][-1]
    rows = page.locator("table.sum tbody tr")
    assert rows.count() == 11  # ten of sixteen numbers, and the others
    shown = rows.locator("th bdi").all_inner_texts()
    assert shown[0] == "3"
    assert rows.first.locator(".tag").all_inner_texts() == ["truth", "its answer"]
    for n, name in enumerate(shown):
        i, v = record["hypotheses"].index(name), float(name == "3")
        expected = [before[i], last[i], v, last[i] * v]
        assert cells(rows.nth(n)) == pytest.approx(expected, abs=6e-4)
    hidden = [i for i, name in enumerate(record["hypotheses"]) if name not in shown]
    assert "6 others, summed" in rows.last.inner_text()
    sums = [sum(row[i] for i in hidden) for row in (before, last)]
    assert cells(rows.last) == [*map(pytest.approx, sums), None, 0.0]
    expected, cost = last[0], record["cost"]
    assert number(page.locator("td.total").inner_text()) == pytest.approx(expected, abs=6e-4)
    gained = (entropy(before) - entropy(last)) / math.log(16)
    equation = page.locator(".equation").inner_text()
    assert equation.startswith("V = Σ b(5) · v + costs + c · (H(1) − H(5)) / log 16 = ")
    told = [number(part.strip("()")) for part in equation.split(" = ")[2].split(" + ")]
    assert told == pytest.approx([expected, cost, gained], abs=6e-4)
    total = number(equation.split(" = ")[-1])
    assert total == pytest.approx(expected + cost + gained, abs=6e-4)
    assert page.get_by_text("differ by up to").count() == 0


def test_the_river_has_the_likeliest_and_one_band_of_the_others(games):
    page = games.at(place(0))
    items = page.locator(".hypotheses li")
    assert items.count() == page.locator(".band").count() == 11
    assert items.first.inner_text().startswith("3")
    assert items.last.locator("bdi").inner_text() == "the other 6"
    record = games.records[0]
    shown = items.locator("bdi").all_inner_texts()
    hidden = [i for i, name in enumerate(record["hypotheses"]) if name not in shown]
    told = items.last.locator(".value").inner_text().split(" → ")
    sums = [sum(row[i] for i in hidden) for row in record["posterior"][:2]]
    assert [*map(number, told)] == pytest.approx(sums, abs=6e-4)


def test_noisy_observations_change_the_entropy_alone(made, watched):
    shown = Shown(watched, *made("noisy", noise=math.log(0.1), size=1300))
    page = shown.at(place(0, 1))
    lines = shown.texts(".change")
    rows = shown.records[0]["posterior"]
    for line, (before, after) in zip(lines[:3], pairwise(rows), strict=False):
        assert f"entropy {entropy(before):.2f} → {entropy(after):.2f}" in line
        assert "rules out" not in line
    assert page.locator("table.sum tbody tr").count() <= 13
    assert "1,290 others" in page.locator("table.sum").inner_text()
    assert len(page.evaluate("document.documentElement.outerHTML")) < 2_000_000
    details = page.evaluate("barl.store.group(0)")
    assert len(str(details["rollouts"])) < 60_000


def test_without_a_truth_nothing_is_right_or_wrong(made, watched):
    shown = Shown(watched, *made("blind", has_truth=False))
    page = shown.at("#/")
    assert page.get_by_text("No prompt of this run has a true answer").count() == 1
    for name, wanted in (("right", 0), ("wrong", 0), ("wrong_praised", 0), ("no_truth", 4)):
        shown.at(f"#/?f={name}")
        assert len(listed(shown)) == wanted
    for at in ("#/step/1", "#/step/1/group/0", place(0)):
        page = shown.at(at)
        text = page.locator("main").inner_text()
        assert "✓" not in text and "✗" not in text and "in the truth" not in text
    assert "truth" not in page.locator(".tag").all_inner_texts()
    assert "its answer" in page.locator(".hypotheses .tag").all_inner_texts()
    assert page.locator("[data-mode=truth]").is_disabled()
    assert page.locator(".lead").inner_text().startswith("no truth known, answers 3")
    assert page.get_by_text("Entropy of the belief goes from 2.77 to 0.69").count() == 1
    assert page.get_by_text("differ by up to").count() == 0
    assert shown.texts("table.methods tbody th") == ["bayesthis run"]
    assert page.locator(".band.h0").count() == 0


COLUMNS = {"task": "b(1)|b(5)|v|Q|b · Q", "both": "p(1)|p(5)|v|Q|w(1)|w · Q"}


@pytest.mark.parametrize("belief", COLUMNS)
def test_barls_arithmetic_names_where_the_belief_comes_from(made, watched, belief):
    shown = Shown(watched, *made(belief, credit="barl", belief=belief))
    page, record = shown.at(place(0, 1)), shown.records[0]
    assert shown.texts("table.sum thead th") == ["hypothesis", *COLUMNS[belief].split("|")]
    total = number(page.locator("td.total").inner_text())
    assert total == pytest.approx(record["step_values"][1], abs=6e-4)
    rows = page.locator("table.sum tbody tr")
    parts = [cells(rows.nth(n))[-1] for n in range(rows.count())]
    assert sum(parts) == pytest.approx(total, abs=6e-3)
    notes = " ".join(shown.texts(".note"))
    assert ("no answer was scored" in notes) == (belief == "task")
    assert ("that times what the task says" in notes) == (belief == "both")


def test_texts_of_one_turn_tell_below_each_step_what_it_ruled_out(watched, tokenizer, tmp_path):
    recorder = TaskRecorder(tokenizer, tmp_path)
    records, _ = recorder.records(credit="barl", functions={"hypothesis_rewards": foretold})
    write_page([tmp_path / "beliefs"], ["texts"], tmp_path / "page")
    shown = Shown(watched, (tmp_path / "page" / "index.html").as_uri(), records)
    record = records[3]
    page = shown.at("#/step/1/group/0/rollout/3?t=1")
    entropies = [*map(entropy, record["posterior"])]
    pairs = [*pairwise(entropies)]
    lines = shown.texts(".change")
    assert len(lines) == sum(abs(a - b) >= 0.005 for a, b in pairs) > 0
    assert any("rules out " in line for line in lines)
    assert shown.texts("table.sum thead th")[1] == "Σ r from part 2"
    ahead = [sum(column[1:]) for column in zip(*record["predicted_rewards"], strict=True)]
    rows = page.locator("table.sum tbody tr")
    told = [cells(rows.nth(n))[0] for n in range(rows.count())]
    assert told == pytest.approx(ahead, abs=6e-4)
    assert page.get_by_text("differ by up to").count() == 0


def test_a_game_is_accessible(games):
    check_access(games, place(0))
