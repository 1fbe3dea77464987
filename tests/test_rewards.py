"""Outcome rewards: as TRL calls them, on real completions."""

import pytest
import trl.rewards
from hypothesis import given, settings
from hypothesis import strategies as st

from barl_trl.graders import GRADERS, Grader, Verdict, extract_answer
from barl_trl.rewards import (
    AccuracyReward,
    accuracy_reward,
    format_reward,
    get_reward_func,
    resolve_rewards,
)


def message(text):
    return [{"role": "assistant", "content": text}]


@pytest.mark.parametrize("form", [str, message], ids=["text", "messages"])
def test_a_completion_is_rewarded_if_its_last_box_holds_the_true_answer(form):
    texts = [r"\boxed{0.5}", r"\boxed{1} or \boxed{\frac{1}{2}}", r"\boxed{0.5} or \boxed{5}", "5"]
    rewards = accuracy_reward([form(text) for text in texts], [r"\frac{1}{2}"] * 4)
    assert rewards == [1.0, 1.0, 0.0, 0.0]


@pytest.mark.parametrize("truth", [r"3\pi", r"2\sqrt{3}", "3x+2", r"\text{Evelyn}", "(1,2)", "18"])
def test_bare_true_answers_reward_correct_completions_and_no_other(truth):
    completions = [message(rf"So \boxed{{{truth}}}."), message(r"So \boxed{3}.")]
    assert accuracy_reward(completions, [truth] * 2) == [1.0, 0.0]


@pytest.mark.parametrize("truth", ["", " ", r"\frac{1}{2", "1\u200b2", "1" * 513])
def test_an_inadmissible_true_answer_makes_a_completion_unscorable(truth):
    assert accuracy_reward([r"\boxed{1}", "none"], [truth] * 2) == [None, None]


def test_the_last_message_is_judged_and_of_it_the_text():
    completion = [
        {"role": "assistant", "content": None, "tool_calls": []},
        {"role": "tool", "content": r"\boxed{1}"},
        {"role": "assistant", "content": [{"type": "text", "text": r"\boxed{2}"}]},
    ]
    assert accuracy_reward([completion, completion[:1], []], ["2", "2", "2"]) == [1.0, 0.0, 0.0]


def test_true_and_given_answers_are_logged_for_the_completions_table():
    columns = {}
    answers, truths = [r"\boxed{1}", "1", r"\boxed{5=6}", "1"], ["$1$", "1", "6", ""]
    accuracy_reward(answers, truths, log_extra=columns.__setitem__, prompts=[*"abcd"])
    assert columns == {
        "solution": ["1", "1", "6", "[none]"],
        "answer": ["1", "[none]", "5=6", "[none]"],
        "verdict": ["equal strings", "no answer", "numbers", "no truth"],
    }


def test_comparisons_that_failed_are_counted_and_warned_of_by_what_happened(caplog):
    own = Grader("own", "1", extract_answer, lambda gold, answer: Verdict(False, answer))
    metrics = {}
    completions = [rf"\boxed{{{reason}}}" for reason in ("timeout", "crash", "crash", "other")]
    AccuracyReward(own, "own")(completions, ["1"] * 4, log_metric=metrics.__setitem__)
    assert metrics == {"verification_failures": 0.75}
    assert "could not be judged" in caplog.text


@given(st.lists(st.text(), max_size=4))
@settings(max_examples=30)
def test_any_completion_has_a_reward(completions):
    assert len(accuracy_reward(completions, ["1"] * len(completions))) == len(completions)
    assert all(reward in (0.0, 1.0) for reward in format_reward(completions))


def test_format_is_a_closed_last_box():
    completions = [r"\boxed{7}", r"\fbox{}", r"\boxed{7} \boxed{7", "7"]
    assert format_reward(completions, solution=["7"] * 4) == [1.0, 1.0, 0.0, 0.0]
    assert format_reward([message(text) for text in completions]) == [1.0, 1.0, 0.0, 0.0]


# Graders


def test_a_grader_is_a_reward_by_its_name():
    completions = [r"\boxed{50}", "50", r"\boxed{0.5}"]
    rewards = {name: get_reward_func(name)(completions, ["0.5"] * 3) for name in GRADERS}
    alone = [0.0, 0.0, 1.0]
    assert rewards == {"math_verify": alone, "qwen": [1.0, 1.0, 1.0], "string": alone}
    assert get_reward_func("qwen").__name__ == "qwen"
    # in Python, too, and other texts are left to TRL
    rewards = resolve_rewards(["string", "org/reward-model", accuracy_reward])
    assert rewards[0].grader is GRADERS["string"]
    assert rewards[1:] == ["org/reward-model", accuracy_reward]
    assert resolve_rewards("qwen").grader is GRADERS["qwen"]


def test_what_graders_read_can_be_set_for_all_of_them():
    given = ["math_verify", accuracy_reward, format_reward, "org/reward-model"]
    named, reward, *others = resolve_rewards(given, "stated")
    assert named(["The answer is 2."], ["2"]) == reward(["The answer is 2."], ["2"]) == [1.0]
    assert (reward.__name__, others) == ("accuracy_reward", given[2:])
    assert accuracy_reward(["The answer is 2."], ["2"]) == [0.0], "the given one is as before"
    assert resolve_rewards(reward).grader.extraction == "stated"
    with pytest.raises(ValueError, match="for qwen, got 'stated'"):
        resolve_rewards(["qwen"], "stated")


# Names


def test_names_of_trl_are_trls():
    assert get_reward_func("think_format_reward") is trl.rewards.think_format_reward
    overlong = get_reward_func("get_soft_overlong_punishment")
    assert overlong(completion_ids=[[1] * 820, [1] * 1024]) == [0, -1.0]
    with pytest.raises(ValueError, match="reward function must be"):
        get_reward_func("get_soft_overlong_punishment", max_completion_length=None)
    shorter = get_reward_func("get_soft_overlong_punishment", max_completion_length=100)
    assert shorter(completion_ids=[[1] * 80, [1] * 90, [1] * 100]) == [0, -0.5, -1.0]


def test_a_wrong_name_is_refused():
    names = ["acuracy_reward", "", "..", "no.such"]
    for name in [*names, "barl_trl.rewards.acuracy", "barl_trl.rewards.__name__"]:
        with pytest.raises(ValueError, match="reward function must"):
            get_reward_func(name)
