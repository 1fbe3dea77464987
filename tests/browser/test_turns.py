"""Rollouts of several turns, as training with tools recorded them."""

import math

import pytest

from barl_trl.evaluation.records import convert_responses
from barl_trl.inspector.site import write_page

from ..evaluation.files import response, write_responses
from ..inspector.rollouts import record_agents
from ..trainer.playing import agent_tokenizer, call, speaking
from ..trainer.test_text_rollouts import Higher, talking
from .conftest import Shown
from .test_access import check_access
from .test_list import listed
from .test_panels import number

pytestmark = [pytest.mark.browser, pytest.mark.filterwarnings("ignore:.*docs/method.md")]


@pytest.fixture(scope="module", params=["barl", "belief_critic"])
def run(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("agents")
    _, records = record_agents(folder, request.param)
    write_page([folder / "beliefs"], ["agents"], folder / "page")
    return (folder / "page" / "index.html").as_uri(), records


@pytest.fixture
def shown(watched, run):
    return Shown(watched, *run)


def place(n):
    return f"#/step/1/group/0/rollout/{n}?t=1"


def test_turns_and_observations_stand_apart(shown):
    page, record = shown.at(place(0)), shown.records[0]
    assert shown.texts(".turn strong") == ["Turn 1", "Turn 2", "Turn 3"]
    own = record["own_tokens"]
    starts = [0, *record["turn_ends"][:-1]]
    for n, start in enumerate(starts):
        chips = page.locator(".turn").nth(n).locator(".chip").all_inner_texts()
        weights = [record["token_weights"][start], record["advantage"]]
        assert [*map(number, chips)] == pytest.approx(weights, abs=6e-3)
    assert shown.texts(".observation .label") == ["look, look", "look"]
    observed = page.locator(".observation .token")
    assert observed.count() == own.count(0)
    assert observed.evaluate_all("all => all.every(e => !/pos|neg|seq/.test(e.className))")
    assert "it is \\boxed{12}" in page.locator(".observation").first.inner_text()
    assert '{"name": "look", "arguments": {"key": 1}}' in page.locator(".tokens").inner_text()
    assert page.locator(".thought").count() == 0  # but a tool says <think>
    assert page.locator(".observation .at").count() == 1
    page.wait_for_selector("h3:text-matches('^Turn 2: tokens ')")
    assert "turns 3" in page.locator(".facts").inner_text().replace("\n", " ")
    assert page.locator("[data-mode=weight]").inner_text() == "turn weight"


def test_what_each_observation_changed(shown):
    record = shown.records[0]
    page, logps = shown.at(place(0)), record["answer_logps"]
    is_belief = len(record["hypotheses"]) > 1
    states = record["posterior"] if is_belief else [[*map(math.exp, row)] for row in logps]
    lines = shown.texts(".change")
    assert len(lines) == 3
    for t, line in enumerate(lines):
        before, after = line.split(" · ")[0].split(" the truth ")[1].split(" → ")
        truth = [states[t][0], states[t + 1][0]]
        assert [number(before), number(after)] == pytest.approx(truth, abs=6e-3)
        moved = [b - a for a, b in zip(states[t], states[t + 1], strict=True)]
        for said, most in (("gained", max(moved)), ("lost", min(moved))):
            told = [part for part in line.split(" · ") if part.startswith(f"most {said}: ")]
            assert len(told) == (abs(most) >= 0.005 and (most > 0) == (said == "gained"))
            if told:
                name, _, change = told[0].removeprefix(f"most {said}: ").rpartition(" ")
                assert number(change) == pytest.approx(most, abs=6e-3)
                assert moved[record["hypotheses"].index(name)] == most
    assert page.locator(".observation + .change").count() == 2


def test_thoughts_are_the_models_and_steps_of_one_turn_are_lines_or_parts(shown):
    page = shown.at(place(2))
    assert page.locator(".thought .token").all_inner_texts() == ["<think>", "h", "m", "</think>"]
    page = shown.at(place(1))
    assert page.locator(".turn").count() == 0
    page.get_by_text("Choose a line").or_(page.get_by_text("after the last line")).wait_for()
    assert page.locator("[data-mode=weight]").inner_text() == "line weight"


def test_who_asked_nothing_and_who_ended_in_a_call(shown):
    for name, wanted in (("asked_nothing", [1]), ("ended_in_call", [3])):
        shown.at(f"#/?f={name}")
        assert listed(shown) == [[1, 0, n] for n in wanted]


def test_rewards_of_turns_make_the_return(watched, tmp_path):
    made = talking(tmp_path, Higher, log_beliefs=True, credit_baseline="none")
    speaking(made.model, made._tokenizer, [["3", "7"], ["9", "8", "1"], ["7"], ["2", "7"]])
    made.train()
    write_page([tmp_path / "beliefs"], ["texts"], tmp_path / "page")
    shown = Shown(watched, (tmp_path / "page" / "index.html").as_uri(), [])
    text = shown.at().locator("main").inner_text()
    assert "mean return\n1.100" in text and "mean outcome" not in text  # of 1, 1.8, .7 and .9
    for name in ("right", "wrong", "no_answer", "asked_nothing", "tied_spread"):
        shown.at(f"#/?f={name}")
        assert listed(shown) == []
    text = shown.at(place(2)).locator("main").inner_text()
    assert "turn reward\n0.70" in text and "turns\n1" in text
    assert "Turn 1 reward 0.700 weight +0.70" in text and "Truth" not in text
    check_access(shown, "#/", "#/step/1", "#/step/1/group/0", place(1))


def test_evaluated_episodes_show_their_observations(watched, tmp_path):
    """Without beliefs and weights: who wrote what, which tool spoke, and GRPO's advantage."""
    tokenizer = agent_tokenizer()
    tokenizer.save_pretrained(tmp_path / "model")
    observation = "\n<|im_start|>user\n<tool_response>\nit is 7\n</tool_response><|im_end|>\n"
    parts = [(call("look", key=1) + "<|im_end|>", 1), (observation, 0), ("So 7.<|im_end|>", 1)]
    ids = [(token, own) for text, own in parts for token in tokenizer.encode(text)]
    fields = {"token_ids": [token for token, _ in ids], "own_tokens": [own for _, own in ids]}
    roles = ("user", "assistant", "tool", "assistant")
    fields["messages"] = [{"role": role, "name": "look"} for role in roles]
    alone = {"token_ids": tokenizer.encode("7<|im_end|>"), "messages": fields["messages"][:2]}
    alone["own_tokens"] = [1] * len(alone["token_ids"])
    rollouts = [response(5, 0, 1, **fields), response(5, 1, 0, **alone)]
    folder = write_responses(tmp_path / "out", {5: rollouts}, model=str(tmp_path / "model"))
    [path] = convert_responses(folder)
    write_page([path.parent], ["agents"], tmp_path / "page")
    shown = Shown(watched, (tmp_path / "page" / "index.html").as_uri(), [])
    page = shown.at("#/step/0/group/5/rollout/0")
    assert shown.texts(".observation .label") == ["look"]
    assert "it is 7" in page.locator(".observation").inner_text()
    assert '{"name": "look", "arguments": {"key": 1}}' in page.locator(".tokens").inner_text()
    assert shown.texts(".turn") == ["Turn 1 GRPO +0.71", "Turn 2 GRPO +0.71"]
    assert "turns 2" in page.locator(".facts").inner_text().replace("\n", " ")
    shown.at("#/?f=asked_nothing")
    assert listed(shown) == [[0, 5, 1]]
