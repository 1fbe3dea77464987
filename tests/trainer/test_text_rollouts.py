"""Episodes in text: what the model reads, what environments hear, and what they may do wrong."""

import math
import os
import sys

import pytest
from datasets import Dataset

from barl_trl import text_rollouts

from ..tiny import tiny_tokenizer
from .playing import TEMPLATES, played, speaking
from .test_agents import QUESTION, agent
from .test_turn_rewards import check_weights

ROWS = [{"prompt": QUESTION, "seed": 3}] * 4
REPLY = "<|im_end|>\n<|im_start|>user\n{}<|im_end|>\n<|im_start|>assistant\n"


class Higher:
    """Is the number higher? In the forms of gymnasium."""

    def reset(self, *, seed=None, options=None):
        self.seed, self.answer, self.heard = seed, None, []
        return "Guess.", {"info": 1}

    def step(self, text):
        self.heard.append(text)
        number = int(text)
        self.answer = text if number == 7 else None
        return ("higher" if number < 7 else "lower"), number / 10, number == 7, False, {}


def talking(tmp_path, environment, max_turns=3, **fields):
    given = {"rows": ROWS, "reward_funcs": None, "credit": "turns"} | fields
    return agent(tmp_path, rollout_func=text_rollouts(environment, max_turns=max_turns), **given)


def talk(tmp_path, says, environment=Higher, *, rows=ROWS, **fields):
    trainer = talking(tmp_path, environment, rows=rows, **fields)
    return trainer, played(trainer, rows, says)


def texts_of(trainer):
    return [trainer._tokenizer.decode(ids) for ids in trainer.generated.completion_ids]


def test_text_episodes_have_turns_masks_rewards_and_answers(tmp_path):
    says = [["3", "7"], ["9", "8", "1"], ["2", "break"], ["5", "4…"]]
    trainer, output = talk(tmp_path, says, credit_baseline="none")
    generated, tokenizer = trainer.generated, trainer._tokenizer
    texts = texts_of(trainer)
    assert texts[:3] == [
        "3" + REPLY.format("higher") + "7<|im_end|>",
        "9" + REPLY.format("lower") + "8" + REPLY.format("lower") + "1<|im_end|>",
        "2" + REPLY.format("higher") + "break<|im_end|>",
    ]
    assert texts[3].startswith("5" + REPLY.format("higher") + "44")  # it never ends
    contents = [" ".join(one["content"] for one in said) for said in generated.completions]
    assert contents[:3] == ["3 higher 7", "9 lower 8 lower 1", "2 higher break"]
    prompts = [tokenizer.decode(ids) for ids in generated.prompt_ids]
    assert all("4?\n\nGuess.<|im_end|>" in prompt for prompt in prompts)
    told = [[0.3, 0.7], [0.9, 0.8, 0.1], [0.2, math.nan], [0.5, math.nan]]
    for rewards, want in zip(generated.turn_rewards, told, strict=True):
        assert rewards == pytest.approx(want, nan_ok=True)
    assert trainer.scored.answers == ["7", None, None, None]
    assert trainer.scored.is_cut_off == [False, False, False, True]
    assert trainer._metrics["train"]["barl/environment_errors"] == [0.25]
    assert [one.seed for one in trainer.environments] == [3] * 4
    assert trainer.script.calls == [4, 4, 1]  # who was done takes no further turn
    expected = []
    for rewards, ends, mask in zip(told, trainer.scored.step_ends, generated.masks, strict=True):
        known = [0.0 if math.isnan(r) else r for r in rewards]
        to_go = [*(sum(known[t:]) for t in range(len(known))), known[-1]]  # the end is of its turn
        expected.append([own * to_go[sum(end <= k for end in ends)] for k, own in enumerate(mask)])
    check_weights(output, expected)
    rows = [{"prompt": "Which number?", "seed": 1}] * 4  # plain prompts
    trainer, _ = talk(tmp_path, [["3", "7<|endoftext|>8"]] * 4, rows=rows)  # padding ends a turn
    assert texts_of(trainer)[0] == "3<|im_end|>\nhigher\n7<|endoftext|>"


class Terse:
    def reset(self):
        return None

    def step(self, text):
        return "", 0.2 if text else 1.0, True


@pytest.mark.parametrize("credit", ["turns", "grpo"])
def test_a_turn_without_words_has_its_reward(tmp_path, credit):
    given = {"credit": credit, "credit_baseline": "none"}
    trainer, output = talk(tmp_path, [[""], ["3"], [""], ["5"]], Terse, **given)
    assert trainer.generated.turn_rewards == [[1.0], [0.2], [1.0], [0.2]]
    assert trainer._metrics["train"]["rewards/turn_rewards/mean"] == [pytest.approx(0.6)]
    first, second, *_ = output["advantages"].tolist()
    high, low = (1.0, 0.2) if credit == "turns" else (0.4 / 0.46188, -0.4 / 0.46188)  # ddof 1
    assert first[:2] == pytest.approx([high, 0], abs=1e-3)
    assert second[:2] == pytest.approx([low, low], abs=1e-3)


def test_text_episodes_without_room_for_an_observation_are_cut_off(tmp_path):
    trainer, _ = talk(tmp_path, [["3", "4", "5"]] * 4, max_completion_length=12)
    assert [len(ids) for ids in trainer.generated.completion_ids] == [12] * 4
    assert trainer.scored.is_cut_off == [True] * 4
    assert trainer.generated.completions[0][-1] == {"role": "tool", "content": "higher"}
    assert trainer.script.calls == [4]
    assert all(one.heard == ["3"] for one in trainer.environments)
    # the same where the model can read no more
    trainer.model.config.max_position_embeddings = len(trainer.generated.prompt_ids[0]) + 6
    trainer.max_completion_length = 300
    played(trainer, ROWS, [["3", "4", "5"]] * 4)
    assert [len(ids) for ids in trainer.generated.completion_ids] == [6] * 4


def test_text_episodes_are_trained_and_evaluated(tmp_path):
    """The environments of one batch are used again in the next."""
    made = []

    class Counted(Higher):
        def __init__(self):
            made.append(self)

    evaluates = {"eval_strategy": "steps", "per_device_eval_batch_size": 4, "eval_steps": 1}
    evaluates |= {"eval_dataset": Dataset.from_list(ROWS), "max_steps": 2}
    trainer = talking(tmp_path, Counted, max_turns=2, **evaluates)
    speaking(trainer.model, trainer._tokenizer, [["3", "7"]] * 4)
    trainer.train()
    assert len(made) == 4
    rewards = [log["eval_reward"] for log in trainer.state.log_history if "eval_reward" in log]
    assert rewards == [pytest.approx(1.0)] * 2


# What environments hear and say


def test_environments_do_not_hear_thoughts(tmp_path):
    tokenizer = tiny_tokenizer()  # in which <think> is no special token, as in Qwen3's
    tokenizer.chat_template = (TEMPLATES / "qwen2_5.jinja").read_text()
    says = [["<think>4?</think>\n\n3", "7"], ["4?</think>3", "7"], ["3<think>4", "7"], ["3", "7"]]
    trainer, _ = talk(tmp_path, says, tokenizer=tokenizer, max_turns=2)
    assert [[*map(int, one.heard)] for one in trainer.environments] == [[3, 7]] * 4
    assert texts_of(trainer)[0].startswith("<think>4?</think>")


def test_observations_become_texts_of_bounded_length_and_rows_are_copies(tmp_path):
    said = [{"cards": ["Ü", 2]}, "\n half \ud83d", "long" * 20, None]

    class Says:
        def reset(self, prompt, seed, **row):
            self.number = row["numbers"].pop()
            prompt.clear()

        def step(self, text):
            os.chdir("/")
            return said[self.number], None, False

    folder, rows = os.getcwd(), [row | {"numbers": [n]} for n, row in enumerate(ROWS)]
    trainer, _ = talk(tmp_path, [["a", "b"]] * 4, Says, rows=rows, max_turns=2, max_result_chars=48)
    seen = [text.split("user\n")[1].split("<|im_end|>")[0] for text in texts_of(trainer)]
    assert seen[:2] == ['{"cards": ["Ü", 2]}', "\n half \ufffd"] and seen[3] == ""
    assert [messages[1]["content"] for messages in trainer.generated.completions] == seen
    assert len(seen[2]) == 48 and seen[2].startswith("longlong") and "80 characters" in seen[2]
    assert [row["numbers"] for row in trainer._inputs] == [[0], [1], [2], [3]]
    assert os.getcwd() == folder


# What environments do wrong


class Ends(Higher):
    def step(self, text):
        sys.exit(1) if text == "exit" else os.chdir("/")
        return super().step(text)


def test_an_environment_that_ends_the_process_ends_its_rollout(tmp_path):
    made, folder = [], os.getcwd()

    def make():
        made.append(Ends())
        return made[-1]

    trainer, _ = talk(tmp_path, [["exit"], ["3", "7"], ["7"], ["7"]], make)
    assert trainer.scored.answers == [None, "7", "7", "7"]
    assert os.getcwd() == folder
    played(trainer, ROWS, [["7"]] * 4)  # not with the one that ended
    assert trainer.environments == made[1:] and len(made) == 5
    assert trainer._metrics["train"]["barl/environment_errors"] == [0.25, 0.0]

    def interrupted(self, text):
        raise KeyboardInterrupt

    Ends.step = interrupted
    with pytest.raises(KeyboardInterrupt):
        played(trainer, ROWS, [["7"]] * 4)


def methods(**functions):
    return type("Wrong", (Higher,), functions)


async def waits(self, text=""):
    return "", 0.0, True


# TextArena's two values, a text, rewards of players, a text for the end, and the end before it
STEPS = [(True, {}), "yes!", ("", {0: 1.0}, True), ("", 1.0, "False"), ("", False, 0.1)]
STEPS += [("", "0.5", True), ("", float, True), None]
FORMS = [methods(step=lambda self, text, told=told: told) for told in STEPS]
FORMS += [methods(step=waits), methods(reset=waits)]


@pytest.mark.parametrize("environment", FORMS)
def test_what_no_environment_may_return_ends_the_run_whenever_it_comes(tmp_path, environment):
    environments = [Higher(), environment(), Higher(), Higher()]
    trainer = talking(tmp_path, environments.pop)
    trainer.state.global_step = 1
    with pytest.raises(ValueError, match="Wrong"):
        played(trainer, ROWS, [["7"]] * 4)


RAISING = methods(step=lambda self, text: 1 / 0), methods(reset=lambda self, secret: None)


@pytest.mark.parametrize("environment", RAISING)
def test_environments_that_none_can_play_are_an_error_at_once(tmp_path, environment):
    trainer = talking(tmp_path, environment)
    with pytest.raises(RuntimeError, match="Wrong"):
        played(trainer, ROWS, [["7"]] * 3 + [["7…"]])  # the last one is cut off, and not asked
    trainer.state.global_step = 1  # a server may be down for a while
    played(trainer, ROWS, [["7"]] * 4)
    assert trainer._metrics["train"]["barl/environment_errors"][-1] == 1.0
    assert not trainer.generated.turn_rewards[0][0] > 0


ONE, KNOWING = Higher(), methods(reset=lambda self, seed: setattr(self, "answer", "7"))


@pytest.mark.parametrize("made", [lambda: ONE, KNOWING, ONE])
def test_environments_that_would_train_wrongly_are_refused(tmp_path, made):
    with pytest.raises((TypeError, ValueError), match=r"environment_factory|answer"):
        talk(tmp_path, [["7"]] * 4, made)
    with pytest.raises(ValueError, match="max_turns"):
        text_rollouts(Higher, max_turns=0)


class Owner(Higher):
    """Owns its task, and rules out what it no longer holds for possible."""

    broken = ()

    def reset(self, seed):
        if self in self.broken:
            raise ConnectionError("down")
        self.hypotheses, self.solution = ["7", "12", "30"], "12"
        return super().reset(seed=seed)

    def step(self, text):
        self.hypotheses.remove("30")
        return super().step(text)


def test_the_task_is_that_before_the_game_and_of_the_prompt_where_a_reset_raises(tmp_path):
    trainer, _ = talk(tmp_path, [["7"]] * 4, Owner, credit="bayes", belief="task")
    assert trainer.scored.sets[0].answers == ("12", "7", "30")
    Owner.broken = trainer.environments[:1]
    trainer.state.global_step = 1
    played(trainer, ROWS, [["7"]] * 4)
    assert {one.answers for one in trainer.scored.sets} == {("12", "7", "30")}
    assert trainer.scored.answers == [None, "7", "7", "7"]
    assert trainer.generated.turn_rewards[1:] == [[0.7]] * 3
    assert trainer._metrics["train"]["barl/environment_errors"] == [0.0, 0.25]
