"""Agents: TRL's real loop of tools and environments, and rollout functions of several turns."""

import copy
import math
import random
from functools import partial

import numpy as np
import pytest
import torch
from datasets import Dataset
from transformers import GenerationConfig
from trl import GRPOTrainer

from barl_trl import BARLTrainer, ends_episode
from barl_trl.rewards import accuracy_reward
from barl_trl.synthetic.search import search_rows
from barl_trl.trainer.records import FOLDER, read_records
from barl_trl.trainer.turns import turn_ends

from .. import reference
from ..base_model import save_base_model, search_messages
from ..tiny import tiny_model
from . import by_hand
from .playing import (
    TEMPLATES,
    Keeping,
    agent_config,
    agent_tokenizer,
    call,
    described,
    played,
    speaking,
)
from .rollouts import apart, config, output_of

QUESTION = [{"role": "user", "content": "What is 3 times 4?"}]
ROWS = [{"prompt": QUESTION, "solution": "12"}] * 4


@described
def look(key: int) -> str:
    if key < 0:
        raise RuntimeError(r"no \boxed{12}")
    return r"it is \boxed{12}, <think> and <|im_end|> or </tool_call>" + "!" * key


def agent(tmp_path, family="qwen2_5", *, cls=Keeping, rows=ROWS, tokenizer=None, **given):
    tokenizer = tokenizer or agent_tokenizer(family)
    model = tiny_model(tokenizer)
    model.config.max_position_embeddings = 4096
    fields, arguments = apart({"per_device_train_batch_size": len(rows)} | given)
    args, dataset = agent_config(tmp_path, **fields), Dataset.from_list(rows)
    rewards = arguments.pop("reward_funcs", accuracy_reward)
    return cls(model, rewards, args, dataset, processing_class=tokenizer, **arguments)


def test_earlier_calls_in_a_prompt_have_their_own_arguments_only(tmp_path):
    """Arrow gives each call the arguments of all others, as null."""

    def history(name):
        call = {"type": "function", "function": {"name": "look", "arguments": {name: 3}}}
        said = {"role": "assistant", "content": "", "tool_calls": [call]}
        return [*QUESTION, said, {"role": "tool", "name": "look", "content": "3"}, *QUESTION]

    rows = [{"prompt": history(name), "solution": "12"} for name in ("key", "page")]
    dataset = Dataset.from_list(rows)
    trainer = agent(tmp_path, rows=rows, tools=[look], per_device_train_batch_size=8)
    played(trainer, [dataset[k] for k in (0, 0, 0, 0, 1, 1, 1, 1)], [[r"\boxed{12}"]] * 8)
    prompts = [trainer._tokenizer.decode(trainer.generated.prompt_ids[k]) for k in (0, 4)]
    assert [("page" in prompt, "null" in prompt) for prompt in prompts] == [(0, 0), (1, 0)]


def plays(family="qwen2_5"):
    def c(key):
        return call("look", family, key=key)

    return [
        [c(0), r"So \boxed{12}"],
        [c(1), c(2), "I do not know"],
        [r"At once \boxed{7}"],
        [c(3), r"It is \boxed{2}"],
    ]


@pytest.mark.parametrize("family", ["qwen2_5", "qwen3", "llama3_1"])
def test_only_the_models_tokens_have_weights_and_those_are_by_hand(tmp_path, family):
    """Steps are turns: states at the prompt, behind each result, and at the last word."""
    trainer = agent(tmp_path, family, tools=[look], value_normalization="none", step_size=99)
    output = played(trainer, ROWS, plays(family))
    scored, generated, model = trainer.scored, trainer.generated, trainer.model
    assert trainer.script.calls == [4, 3, 1]
    assert [*map(len, scored.turns)] == [2, 3, 1, 2]
    assert scored.answers == ["12", None, "7", "2"]
    outcomes = trainer._rewards_per_func[:, 0].tolist()
    assert outcomes == [1.0, 0.0, 0.0, 0.0]
    (answers,) = {found.answers for found in scored.sets}
    assert set(answers) == {"12", "7", "2"}
    bare = by_hand.ELICITATION.removeprefix("\n")
    for n, (ids, mask) in enumerate(zip(generated.completion_ids, generated.masks, strict=True)):
        starts = [k for k in range(1, len(ids)) if mask[k] and not mask[k - 1]]
        assert scored.step_ends[n] == [*starts, len(ids) - 1]
        prompt = generated.prompt_ids[n]
        states = [([*prompt, *ids[:k]], bare) for k in (0, *starts)]
        states.append(([*prompt, *ids[:-1]], by_hand.ELICITATION))
        logp = partial(by_hand.answer_logp, model, trainer._tokenizer)
        logps = [[logp(of, text, elicitation=asked) for text in answers] for of, asked in states]
        outcome = [outcomes[n]] * len(answers)
        values = reference.posterior_weighted_values(logps, outcome, 1.0)
        values.append(reference.closing_value(logps, outcome, 1.0))
        turns = [sum(start <= k for start in starts) for k in range(len(ids) - 1)]
        expected = [values[turn] for turn in turns] + values[-1:]
        expected = [value * own for value, own in zip(expected, mask, strict=True)]
        got = output["advantages"][n][: len(ids)].tolist()
        assert got == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("setting", [{"credit_baseline": "step"}, {"credit": "delta_belief"}])
def test_what_is_biased_where_the_model_stops_by_itself_is_told(tmp_path, setting):
    trainer = agent(tmp_path, tools=[look], **{"credit": "rloo"} | setting)
    played(trainer, ROWS, plays())
    assert ("turns" in trainer._said) == (setting == {"credit": "delta_belief"})


def test_padding_that_a_model_writes_within_a_turn_does_not_stop_the_run(tmp_path):
    trainer = agent(tmp_path, tools=[look], step_size=99, credit="rloo")
    games = [[*game[:-1], "I <|endoftext|> " + game[-1]] for game in plays()]
    games[1][0] = "<|endoftext|>" + games[1][0]
    output = played(trainer, ROWS, games)
    assert [*map(len, trainer.scored.turns)] == [2, 3, 1, 2]
    own = (output["completion_mask"] * output["tool_mask"]).bool()
    assert trainer.scored.answers == ["12", None, "7", "2"]
    for weights, is_own in zip(output["advantages"], own, strict=True):
        assert weights[is_own].unique().numel() == 1 and weights[is_own].ne(0).all()


# Answers


class Guess:
    """A game: `compare` tells where the secret is, `submit` gives the answer."""

    def reset(self, solution, **row):
        self.secret, self.answer = int(solution), None
        return " The game begins."

    @described
    def compare(self, number: int) -> str:
        return "equal" if number == self.secret else "no"

    @described
    def submit(self, number: int) -> str:
        self.answer = number
        return r"noted, not \boxed{5}"

    def get_reward(self) -> float:
        return float(self.answer == self.secret)


class Chance(Guess):
    """Draws a number for each game."""

    def reset(self, **row):
        self.luck = random.random(), np.random.random()
        return super().reset(**row)


GAMES = [
    [call("compare", number=7), call("submit", number=12), r"Done. \boxed{3}"],
    [call("submit", number=9), "Done."],
    [r"Is it \boxed{12}?"],
    [call("compare", number=12), call("submit", number=12), call("compare", number=1), "Done."],
]


def test_an_environment_tells_answers_and_rewards_and_reward_functions_read_them(tmp_path):
    def told(completions, rollout_answer, **kwargs):
        return [float(given.answer is not None) for given in rollout_answer]

    trainer = agent(tmp_path, reward_funcs=[accuracy_reward, told], environment_factory=Guess)
    played(trainer, ROWS, GAMES)
    assert trainer.scored.answers == ["12", "9", None, "12"]
    assert trainer.scored.sets[0].members == (0, 1, None, 0)
    rewards = [[1.0, 1.0, 1.0], [0.0, 1.0, 0.0], [0.0, 0.0, 0.0], [1.0, 1.0, 1.0]]
    assert trainer._rewards_per_func.tolist() == rewards


class Final(Guess):
    """Ends with the answer, by a mark."""

    @ends_episode
    @described
    def submit(self, number: int) -> str:
        return super().submit(number)


class Done(Guess):
    """Ends with the answer, by its attribute."""

    @property
    def done(self):
        return self.answer is not None


ENDINGS = [
    [call("compare", number=7), call("submit", number=12)],
    [call("submit", number=9) + "\n" + call("submit", number=12)],
    [r"Is it \boxed{12}?"],
    [call("submit"), call("submit", number=12)],
]


@pytest.mark.parametrize("game", [Final, Done])
def test_a_tool_may_end_the_rollout_without_another_turn(tmp_path, game):
    trainer = agent(tmp_path, environment_factory=game, log_beliefs=True, credit="barl")
    played(trainer, ROWS, ENDINGS)
    generated, scored = trainer.generated, trainer.scored
    assert trainer.script.calls == [4, 2]  # the end of a rollout is not generated
    assert scored.answers == ["12", "9", None, "12"]
    assert generated.ended == {0, 1, 3} and not any(scored.is_cut_off)
    # the model wrote the last token, and what the tool said stands in the messages alone
    assert [ids[-1] in trainer.turn_end_ids for ids in generated.completion_ids] == [True] * 4
    roles = [[one["role"] for one in rollout] for rollout in generated.completions]
    a, t = "assistant", "tool"
    assert roles == [[a, t, a, t], [a, t, t], [a], [a, t, a, t]]
    assert generated.completions[0][-1]["content"] == r"noted, not \boxed{5}"
    assert "has ended" in generated.completions[1][-1]["content"]
    logged = trainer._metrics["train"]
    assert logged["barl/ended_by_tool"] == [0.75]
    for name in ("ended_in_call", "malformed_calls", "no_room_for_result", "template_mismatch"):
        assert logged[f"barl/{name}"] == [0.0], name
    written = read_records(tmp_path / FOLDER)
    assert [r["ended_by_tool"] for r in written] == [True, True, False, True]


class Untold:
    """A game without an answer and a reward, where the last message is read."""

    secret, compare = 12, Guess.compare

    def reset(self, **row):
        assert "environment" not in row


def test_each_row_may_choose_its_environment(tmp_path):
    several = {"game": Guess, "untold": Untold}
    rows = [row | {"environment": name} for name in several for row in ROWS]
    asks = [[call("compare", number=1), *play[-1:]] for play in plays()]
    trainer = agent(tmp_path, rows=rows, environment_factory=several, step_size=99)
    output = played(trainer, rows, [*GAMES, *asks])
    assert trainer.scored.answers == ["12", "9", None, "12", "12", None, "7", "2"]
    right, rewards = [1.0, 0.0, 0.0, 1.0], trainer._rewards_per_func
    assert rewards[:, 0].tolist() == [*right, 1.0, 0.0, 0.0, 0.0]
    assert rewards[:4, 1].tolist() == right and rewards[4:, 1].isnan().all()
    assert (output["advantages"] != 0).any(dim=1).all()


def telling(told):
    return type("Telling", (Guess,), {"reset": lambda self, **row: told})


class Forgetful(Guess):
    answer = None

    def reset(self, solution, **row):
        self.secret = int(solution)


class Truthful(Guess):
    def reset(self, solution, **row):
        self.secret = self.answer = int(solution)


ONE = Guess()
WRONG = [telling(told) for told in (5, ("Begin.", {}), {"text": "Begin."}, ["Begin."])]


@pytest.mark.parametrize("made", [*WRONG, Forgetful, Truthful, lambda: ONE])
def test_an_environment_that_begins_wrongly_is_refused(tmp_path, made):
    trainer = agent(tmp_path, environment_factory=made)
    with pytest.raises(ValueError, match=r"(reset|environment_factory) must "):
        assert [played(trainer, ROWS, GAMES) for _ in range(2)]


def test_an_environment_gets_copies_is_made_once_and_its_tool_called_answer_tells_nothing(tmp_path):
    made = []

    class Narrowing(Guess):
        answer = Guess.submit

        def __init__(self):
            made.append(self)

        def reset(self, prompt, numbers, **row):
            self.secret, self.seen = 12, numbers[:]
            del numbers[1:]

    def reward(numbers, environments, **columns):
        assert [one.seen for one in environments] == numbers
        return [*map(len, numbers)]

    rows = [ROWS[0] | {"numbers": ["12", "9", "5"]}] * 4
    task = {"hypotheses_column": "numbers", "step_size": 99}
    trainer = agent(tmp_path, rows=rows, reward_funcs=reward, environment_factory=Narrowing, **task)
    for _ in range(2):
        played(trainer, rows, [[call("answer", number=9), r"So \boxed{5}"]] * 4)
    assert len(made) == 4 and rows[0]["numbers"] == ["12", "9", "5"]
    assert {*trainer.scored.sets[0].answers} == {"12", "9", "5"}
    assert trainer.scored.answers == ["5"] * 4
    assert trainer._rewards_per_func[:, 0].tolist() == [3.0] * 4


@pytest.mark.parametrize("is_async", [False, True])
def test_rewards_that_are_no_list_of_numbers_are_refused(tmp_path, is_async):
    returned = []

    def reward(completions, **columns):
        return returned[-1]

    async def later(completions, **columns):
        return returned[-1]

    trainer = agent(tmp_path, reward_funcs=later if is_async else reward)
    for wrong in (1.0, None, "1111", [1.0], ["1"] * 4, [[1.0, 2.0]] * 4, dict.fromkeys(range(4))):
        returned.append(wrong)
        with pytest.raises(ValueError, match="reward_funcs must"):
            played(trainer, ROWS, plays())
    for right in ([None, 0.5, np.float32(1), True], torch.tensor([math.nan, 0.5, 1, 1])):
        returned.append(right)
        played(trainer, ROWS, plays())
        first, *others = trainer._rewards_per_func[:, 0].tolist()
        assert math.isnan(first) and others == [0.5, 1.0, 1.0]


@pytest.mark.parametrize("last_state", ["measured", "answer"])
def test_the_last_state_may_be_the_answer(tmp_path, last_state):
    trainer = agent(tmp_path, environment_factory=Guess, last_state=last_state)
    played(trainer, ROWS, GAMES)
    logps, ends = trainer.scored.likelihoods.answer_logps, trainer.scored.step_ends
    found = [logps[n, len(ends[n]), :2].tolist() for n in range(4)]
    certain = [[0.0, -100.0], [-100.0, 0.0], [-100.0, -100.0], [0.0, -100.0]]
    assert (found == certain) == (last_state == "answer") and logps[0, 0, 0] < -0.1


def chatting(parts, **columns):
    """A `rollout_func` whose rollouts are lists of parts: texts are the model's, pairs are not."""

    def rollout_func(prompts, trainer):
        tokenizer, ids, masks = trainer.processing_class, [], []
        for rollout in parts[: len(prompts)]:
            ids.append([])
            masks.append([])
            for part in rollout:
                words = tokenizer.encode(part if isinstance(part, str) else part[0])
                ids[-1] += words
                masks[-1] += [int(isinstance(part, str))] * len(words)
        prompt_ids = [tokenizer.encode(str(prompt)) for prompt in prompts]
        output = {"prompt_ids": prompt_ids, "completion_ids": ids, "logprobs": None}
        return output | {"env_mask": masks} | columns

    return rollout_func


REPLY = ("\n<|im_start|>user\nNo \\boxed{5}.<|im_end|>\n<|im_start|>assistant\n",)
RESULT = (REPLY[0].replace("No", "<tool_response>\nNo").replace(".<", ".\n</tool_response><"),)
CHATS = [
    ["Is it 3?<|im_end|>", REPLY, r"\boxed{12}<|im_end|>"],
    ["Is it 4?", ("<|im_end|>" + REPLY[0],), "Then 5?<|im_end|>", REPLY, r"\boxed{7}<|im_end|>"],
    [r"\boxed{9}<|im_end|>"],
    ["Is it 8?<|im_end|>", RESULT],
]


def test_a_rollout_func_of_several_turns(tmp_path):
    seen = []

    def reward(completions, **kwargs):
        seen.extend(completions)
        return accuracy_reward(completions, kwargs["solution"])

    trainer = agent(tmp_path, reward_funcs=reward, rollout_func=chatting(CHATS), step_size=99)
    output = output_of(trainer, ROWS)
    assert [*map(len, trainer.scored.turns)] == [2, 3, 1, 1]
    assert trainer.scored.answers == ["12", "7", "9", None]
    assert not any(trainer.scored.is_cut_off)  # the last one was ended by the function
    assert trainer._rewards_per_func[:, 0].tolist() == [1.0, 0.0, 0.0, 0.0]
    for n, mask in enumerate(trainer.generated.masks):
        weighed = output["advantages"][n][: len(mask)] != 0
        # the end of a turn that another wrote is not the model's
        assert weighed.tolist() == [bool(own) for own in mask]
    assert [message["role"] for message in seen[1]] == ["assistant", "tool"] * 2 + ["assistant"]
    heard = [one["content"] for messages in seen for one in messages if one["role"] == "tool"]
    assert heard == [r"No \boxed{5}."] * 4
    texts = [{"prompt": "3 * 4?", "solution": "12"}] * 4
    trainer = agent(tmp_path, rows=texts, reward_funcs=reward, rollout_func=chatting(CHATS))
    output_of(trainer, texts)
    assert seen[4:] == [r"\boxed{12}", r"\boxed{7}", r"\boxed{9}", ""]


def test_a_rollout_func_may_tell_the_answers_and_leaves_the_data_as_they_are(tmp_path):
    """And a field that is no list is that of every rollout, as in TRL."""
    seen = []

    def own(completions, answer, rollout_answer, game, **kwargs):
        seen.append((answer, [given.answer for given in rollout_answer], game))
        return [0.0] * len(completions)

    rows = [row | {"answer": "12"} for row in ROWS]
    rollout_func = chatting(CHATS, answer=["12", None, 9, "12"], game=3)
    rewards = [accuracy_reward, own]
    trainer = agent(tmp_path, reward_funcs=rewards, rows=rows, rollout_func=rollout_func)
    output_of(trainer, rows)
    told = ["12", None, "9", "12"]
    assert trainer.scored.answers == told and seen == [(["12"] * 4, told, [3] * 4)]
    assert trainer._rewards_per_func[:, 0].tolist() == [1.0, 0.0, 0.0, 1.0]
    assert [row["game"] for row in trainer._inputs] == [3] * 4


# Edges of TRL's loop


def test_edges_of_the_loop(tmp_path):
    edges = [
        [call("look", key=-1), r"It failed. \boxed{12}"],
        [call("look", key=1) + "\n" + call("look", key=2), "two at once"],
        ["<tool_call>\n{look at 12}\n</tool_call>"],
        [call("look", key=3), call("look", key=4), call("look", key=5)],
    ]
    trainer = agent(tmp_path, tools=[look], max_tool_calling_iterations=2, step_size=999)
    output = played(trainer, ROWS, edges)
    metrics = {name: values[-1] for name, values in trainer._metrics["train"].items()}
    assert [*map(len, trainer.scored.turns)] == [2, 2, 1, 3]
    assert "boxed{12}" in trainer.generated.completions[0][1]["content"]  # the error
    assert metrics["barl/turns_per_rollout"] == 2.0
    assert metrics["barl/malformed_calls"] == metrics["barl/ended_in_call"] == 0.25
    assert trainer.scored.answers == ["12", None, None, None]
    assert not any(trainer.scored.is_cut_off)  # the last one has used up its calls
    weighed = (output["advantages"] != 0).sum(dim=1).tolist()
    assert weighed == [sum(mask) for mask in trainer.generated.masks]


def test_calls_up_to_their_limit_are_no_answers_without_a_box(tmp_path, caplog):
    trainer = agent(tmp_path, tools=[look], max_tool_calling_iterations=1)
    played(trainer, ROWS, [[call("look", key=1)] * 2] * 4)
    assert "max_tool_calling_iterations" in caplog.text and "stated" not in caplog.text
    trainer, _ = agent(tmp_path, tools=[look]), caplog.clear()
    played(trainer, ROWS, [["<tool_call>\n{look at 12}…"]] * 4)  # cut off, too
    assert "malformed_calls" in caplog.text and "Raise" not in caplog.text


@pytest.mark.parametrize("room", [0, -1], ids=["fits exactly", "does not fit"])
def test_a_result_at_the_length_limit(tmp_path, room):
    script = [[call("look", key=0), r"\boxed{12}"]] * 4
    whole = agent(tmp_path, tools=[look])
    played(whole, ROWS, script)
    (turn, _) = whole.scored.turns[0]
    trainer = agent(tmp_path, tools=[look], max_completion_length=turn.stop + room)
    played(trainer, ROWS, script)
    last = trainer.generated.completions[0][-1]
    assert last["role"] == ("tool" if room == 0 else "assistant")
    assert trainer.scored.answers == [None] * 4
    assert trainer._rewards_per_func[:, 0].tolist() == [0.0] * 4
    assert trainer.scored.is_cut_off == [True] * 4
    assert trainer.scored.step_ends[0] == [turn.stop if room == 0 else turn.end]
    assert trainer._metrics["train"]["barl/ended_in_call"][-1] == float(room < 0)


def test_credit_grpo_is_trls_grpo_with_the_same_tools(tmp_path):
    weights = []
    for cls, own in ((Keeping, {"credit": "grpo"}), (GRPOTrainer, {})):
        trainer = agent(tmp_path, cls=cls, tools=[look], scale_rewards="group", **own)
        output = played(trainer, ROWS, plays())
        advantages = output["advantages"].reshape(4, -1)  # TRL's is one for each rollout
        weights.append(advantages * output["completion_mask"] * output["tool_mask"])
    torch.testing.assert_close(weights[0], weights[1], atol=1e-5, rtol=0)


def test_benchmarks_are_whole_episodes_and_training_goes_on_as_without(tmp_path):
    rows = [row | {"solution": str(12 - n % 3)} for n, row in enumerate(ROWS)]
    fields = {"per_device_eval_batch_size": 4, "log_completions": True}
    kwargs = {"reward_funcs": [], "environment_factory": Chance}
    trainer = agent(tmp_path, benchmarks={"games": Dataset.from_list(rows)}, **fields, **kwargs)
    speaking(trainer.model, trainer._tokenizer, GAMES)
    before = random.getstate(), np.random.get_state()[1].tolist()
    metrics = trainer.evaluate()
    assert (random.getstate(), np.random.get_state()[1].tolist()) == before
    # the answers are 12, 9, none and 12, the truths 12, 11, 10 and 12
    assert metrics["eval_games/accuracy"] == 0.5
    words = [sum(len(trainer._tokenizer.encode(text)) + 1 for text in game) - 1 for game in GAMES]
    assert metrics["eval_games/mean_tokens"] == pytest.approx(sum(words) / 4)
    assert not trainer._metrics["eval"] and not trainer._logs["completion"]
    assert trainer.num_generations_eval == 4


# Completions end as the chat template says, in the layout of Qwen2.5-Math's base models


@pytest.fixture(scope="module")
def base_model(tmp_path_factory):
    folder = str(tmp_path_factory.mktemp("base"))
    save_base_model(folder)
    return folder


def base_trainer(model, args, *, conversational=True, **kwargs):
    rows = search_messages() if conversational else Dataset.from_list(search_rows(8, seed=0))
    return BARLTrainer(model, accuracy_reward, args, rows, **kwargs)


def test_a_base_models_completions_end_where_a_message_ends(base_model, tmp_path, caplog):
    args = config(tmp_path, max_completion_length=96, eval_strategy="steps", eval_steps=1)
    base = base_trainer(base_model, args, benchmarks={"mine": search_messages(4)})
    base.train()
    log = {name: value for row in base.state.log_history for name, value in row.items()}
    assert log["completions/clipped_ratio"] == 0
    assert log["reward"] > 0
    assert log["eval_mine/mean_tokens"] < 96
    assert "completions also end with <|im_end|> (359)" in caplog.text
    base.save_model(str(tmp_path))
    expected = base.processing_class.convert_tokens_to_ids(["<|endoftext|>", "<|im_end|>"])
    assert GenerationConfig.from_pretrained(tmp_path).eos_token_id == expected
    assert log["barl/no_answer"] < 0.5
    assert set(expected) <= set(base.scorer.end_ids)


def test_ends_that_a_user_names_are_known_to_all_but_none_may_lack(base_model, tmp_path):
    args = config(tmp_path, generation_kwargs={"eos_token_id": 5})
    base = base_trainer(base_model, args, conversational=False)
    assert base.eos_token_ids == base.generation_config.eos_token_id == [360, 5]
    assert base.generation_kwargs["eos_token_id"] == [360, 5]
    args = config(tmp_path, generation_kwargs={"eos_token_id": [360]})
    with pytest.raises(ValueError, match="the chat template ends"):
        base_trainer(base_model, args)


@pytest.mark.parametrize("wrong", [{"env_mask": None}, {"env_mask": [[1]] * 4}, {"answer": ["7"]}])
def test_turns_that_no_mask_tells_apart_and_other_lengths_are_refused(tmp_path, wrong):
    def changed(prompts, trainer):
        return chatting(CHATS)(prompts, trainer) | wrong

    with pytest.raises(ValueError, match="env_mask"):
        agent(tmp_path, rollout_func=changed).train()


# The token that a chat template puts behind a message, in the families' templates


def found(tokenizer, chat, eos="<|endoftext|>", **kwargs):
    """The ends, beside the tokenizer's EOS, under a chat template or one that TRL has a file of."""
    tokenizer = copy.deepcopy(tokenizer)
    special = ["<|eot_id|>", "<end_of_turn>", "<|end|>", "<|return|>", "<|user|>", "<|shut|>"]
    tokenizer.add_special_tokens({"eos_token": eos, "extra_special_tokens": special})
    path = TEMPLATES / chat
    tokenizer.chat_template = path.read_text() if chat.endswith(".jinja") else chat
    ends = turn_ends(tokenizer, [tokenizer.eos_token_id], **kwargs)
    assert ends[0] == tokenizer.eos_token_id
    return tokenizer.convert_ids_to_tokens(ends[1:])


MESSAGES = "{% for m in messages %}{{ m.content }}{% endfor %}"
WITH_VARIABLE = MESSAGES.replace("content }}", "content }}{{ close }}")


@pytest.mark.parametrize(
    ("chat", "ends"),
    [
        *[(f"qwen{version}.jinja", ["<|im_end|>"]) for version in ("2_5", "3")],
        ("llama3_2.jinja", ["<|eot_id|>"]),
        ("gemma3.jinja", ["<end_of_turn>"]),
        ("gptoss.jinja", ["<|return|>"]),
        ("phi3.jinja", []),  # it puts its EOS behind <|end|>
        ("glm4moe.jinja", []),  # only another message ends one
        # the first token of its own
        (MESSAGES + "\n\n", []),
        (MESSAGES + "\n<|shut|><|im_end|>", ["<|shut|>"]),
        (MESSAGES + "<|shut|><|endoftext|>", []),  # what the model is known to end with
        (MESSAGES + " THE END<|shut|>", ["<|shut|>"]),
        (WITH_VARIABLE, ["<|shut|>"]),
        ("{{ messages[0]['content'] }}<|shut|>", []),
    ],
)
def test_a_base_models_turn_ends_as_its_template_says(tokenizer, chat, ends):
    assert found(tokenizer, chat, close="<|shut|>") == ends


def test_other_ends(tokenizer):
    assert found(tokenizer, "qwen2_5.jinja", eos="<|im_end|>") == []
    with pytest.raises(ValueError, match="chat_template"):  # it ends a turn with text
        found(tokenizer, MESSAGES.replace("content }}", "content }}\n### End\n"))
