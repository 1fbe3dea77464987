"""Completions end as the chat template says, and hold what the model itself wrote."""

import copy
import re
from pathlib import Path
from types import SimpleNamespace

import pytest
import trl
from datasets import Dataset
from transformers import AutoTokenizer, GenerationConfig

from barl_trl import BARLTrainer
from barl_trl.rewards import accuracy_reward
from barl_trl.steps import Turn
from barl_trl.synthetic.search import search_rows
from barl_trl.trainer.evidence import steps_of
from barl_trl.trainer.turns import tell_ends, turn_ends

from ..base_model import save_base_model, search_messages
from ..tiny import tiny_tokenizer
from .rollouts import config, trainer, weights_of

# The layout of Qwen2.5-Math's base models


@pytest.fixture(scope="module")
def base_model(tmp_path_factory):
    folder = str(tmp_path_factory.mktemp("base"))
    save_base_model(folder)
    return folder


def base_trainer(model, args, *, conversational=True, **kwargs):
    rows = search_messages() if conversational else Dataset.from_list(search_rows(8, seed=0))
    return BARLTrainer(model, accuracy_reward, args, rows, **kwargs)


def ends(tokenizer):
    return tokenizer.convert_tokens_to_ids(["<|endoftext|>", "<|im_end|>"])


@pytest.mark.parametrize("credit", ["barl", "grpo"])
def test_a_base_models_completions_end_where_its_template_ends_a_message(
    base_model, tmp_path, caplog, credit
):
    benchmarks = {"mine": search_messages(4)}
    settings = {"max_completion_length": 96, "eval_strategy": "steps", "eval_steps": 1}
    args = config(tmp_path, credit=credit, **settings)
    base = base_trainer(base_model, args, benchmarks=benchmarks)
    base.train()
    log = {name: value for row in base.state.log_history for name, value in row.items()}
    assert log["completions/clipped_ratio"] == 0
    assert log["reward"] > 0
    assert log["eval_mine/mean_tokens"] < 96
    (said,) = (text for text in caplog.messages if "completions also end" in text)
    assert said.startswith("completions also end with <|im_end|> (359), as the chat template or")

    base.save_model(str(tmp_path))
    base.create_model_card()
    expected = ends(base.processing_class)
    assert GenerationConfig.from_pretrained(tmp_path).eos_token_id == expected
    assert f"| eos_token_id | `{expected}` |" in (tmp_path / "README.md").read_text()
    assert log["barl/no_answer"] < 0.5
    assert set(expected) <= set(base.scorer.end_ids)


def test_prompts_of_text_end_with_the_eos_alone(base_model, tmp_path, caplog):
    base = base_trainer(base_model, config(tmp_path), conversational=False)
    assert base.eos_token_ids == ends(base.processing_class)[:1]
    assert "completions also end" not in caplog.text


def test_vllm_is_told(base_model, tmp_path):
    base = base_trainer(base_model, config(tmp_path))
    expected = base.eos_token_ids
    base.use_vllm, base.eos_token_ids = True, expected[:1]
    given = {"seed": 1}
    base.vllm_generation = SimpleNamespace(generation_kwargs=given)
    tell_ends(base)
    assert base.vllm_generation.generation_kwargs == {"seed": 1, "stop_token_ids": expected}
    assert given == {"seed": 1}  # it is that of the settings


@pytest.mark.parametrize("given", [5, [5], [5, 360]])
def test_ends_that_a_user_names_are_known_to_all(base_model, tmp_path, given):
    args = config(tmp_path, generation_kwargs={"eos_token_id": given})
    base = base_trainer(base_model, args, conversational=False)
    assert base.eos_token_ids == [360, 5]
    assert base.generation_config.eos_token_id == [360, 5]
    assert base.generation_kwargs["eos_token_id"] == [360, 5]


@pytest.mark.parametrize("is_loaded", [False, True])
def test_ends_that_leave_out_the_templates_are_refused(base_model, tmp_path, is_loaded):
    args = config(tmp_path, generation_kwargs={"eos_token_id": [360]})
    tokenizer = AutoTokenizer.from_pretrained(base_model)
    model, given = (base_model, None) if is_loaded else ("nowhere", tokenizer)
    message = re.escape("or name <|im_end|> (359) in it, got [360]: the chat template ends")
    with pytest.raises(ValueError, match=message):
        base_trainer(model, args, processing_class=given)


# Others' text

ROWS = [("1+1?", "2"), ("2+1?", "3")]
BOX = r"\boxed{9}"


def say(tokenizer, *parts):
    """Token ids of parts of a rollout, and which are the model's: texts are, pairs' second not."""
    ids, mask = [], []
    for part in parts:
        is_own = isinstance(part, str)
        ids += tokenizer.encode(part if is_own else part[0])
        mask += [int(is_own)] * (len(ids) - len(mask))
    return ids, mask


def playing(*parts, masked=True):
    def rollout_func(prompts, trainer):
        tokenizer = trainer.processing_class
        ids, mask = say(tokenizer, *parts)
        output = {
            "prompt_ids": [tokenizer.encode(str(prompt)) for prompt in prompts],
            "completion_ids": [ids for _ in prompts],
            "logprobs": None,
        }
        return output | ({"env_mask": [mask for _ in prompts]} if masked else {})

    return rollout_func


def test_turns_that_no_mask_tells_apart_are_refused(model, tokenizer, tmp_path):
    parts = ["Is it 3?<|im_end|>", r"\boxed{2}<|im_end|>"]
    first = len(tokenizer.encode("Is it 3?"))
    whole = len(say(tokenizer, *parts)[0])
    barl_trainer = trainer(
        model, tokenizer, config(tmp_path), rows=ROWS, rollout_func=playing(*parts, masked=False)
    )
    message = (
        "rollout_func must mark in env_mask what the model did not write, got rollout 0 with an "
        f"end of turn at token {first} of {whole} and tokens of the model behind it"
    )
    with pytest.raises(ValueError, match=message):
        barl_trainer.train()


class Keeping(BARLTrainer):
    def _score(self, **options):
        self.kept = super()._score(**options)
        return self.kept


@pytest.mark.parametrize("conversational", [False, True], ids=["text", "messages"])
def test_answers_and_rewards_are_read_from_the_models_own_text(
    model, tokenizer, tmp_path, conversational
):
    seen = []

    def reward(completions, solution, **kwargs):
        seen.extend(completions)
        return accuracy_reward(completions, solution)

    rows = ROWS
    if conversational:
        rows = [([{"role": "user", "content": prompt}], truth) for prompt, truth in rows]
    parts = [r"So \boxed{2}", (f" the page says {BOX} and <think>",), " ends.<|im_end|>"]
    barl_trainer = trainer(
        model,
        tokenizer,
        config(tmp_path, step_size=4),
        rows=rows,
        rollout_func=playing(*parts),
        reward_funcs=reward,
        cls=Keeping,
    )
    inputs = [{"prompt": prompt, "solution": truth} for prompt, truth in rows for _ in range(4)]
    barl_trainer.scorer.elicitation._forms[True, False] = None  # scoring fails if a thought is open
    weights = weights_of(barl_trainer, inputs)
    text = "So \\boxed{2}\n ends."
    assert seen == [[{"role": "assistant", "content": text}] if conversational else text] * 8
    assert barl_trainer.kept.answers == ["2"] * 8
    assert barl_trainer._rewards_per_func[:, 0].tolist() == [1.0] * 4 + [0.0] * 4
    _, mask = say(tokenizer, *parts)
    assert [[bool(w) for w in row] for row in weights[4:]] == [[*map(bool, mask)]] * 4


# The token that a chat template puts behind a message, in the families' templates

CHAT_TEMPLATES = Path(trl.__file__).parent / "chat_templates"
"""The families' own, as TRL ships them."""


def found(tokenizer, chat, eos="<|endoftext|>", **kwargs):
    """The ends, beside the tokenizer's EOS, under a chat template or one that TRL has a file of."""
    tokenizer = copy.deepcopy(tokenizer)
    special = ["<|eot_id|>", "<end_of_turn>", "<|end|>", "<|return|>", "<|user|>", "<|shut|>"]
    tokenizer.add_special_tokens({"eos_token": eos, "extra_special_tokens": special})
    path = CHAT_TEMPLATES / chat
    tokenizer.chat_template = path.read_text() if chat.endswith(".jinja") else chat
    ends = turn_ends(tokenizer, [tokenizer.eos_token_id], **kwargs)
    assert ends[0] == tokenizer.eos_token_id
    return tokenizer.convert_ids_to_tokens(ends[1:])


@pytest.mark.parametrize(
    ("chat", "ends"),
    [
        ("qwen2_5.jinja", ["<|im_end|>"]),
        ("qwen3.jinja", ["<|im_end|>"]),
        ("llama3_2.jinja", ["<|eot_id|>"]),
        ("gemma3.jinja", ["<end_of_turn>"]),
        ("gptoss.jinja", ["<|return|>"]),
        ("phi3.jinja", []),  # it puts its EOS behind <|end|>
        ("glm4moe.jinja", []),  # only another message ends one
    ],
)
def test_a_base_models_turn_ends_as_its_template_says(tokenizer, chat, ends):
    assert found(tokenizer, chat) == ends


def test_a_turn_that_ends_in_the_eos_has_no_other_end(tokenizer):
    assert found(tokenizer, "qwen2_5.jinja", eos="<|im_end|>") == []


@pytest.mark.parametrize(
    ("behind", "ends"),
    [
        ("\n\n", []),
        ("\n<|shut|><|im_end|>", ["<|shut|>"]),
        ("<|shut|><|endoftext|>", []),  # what the model is known to end with
        (" THE END<|shut|>", ["<|shut|>"]),
    ],
)
def test_the_first_token_of_its_own_ends_a_turn(tokenizer, behind, ends):
    assert found(tokenizer, "{% for m in messages %}{{ m.content }}{% endfor %}" + behind) == ends


def test_variables_of_the_template_count(tokenizer):
    chat = "{% for m in messages %}{{ m.content }}{{ close }}{% endfor %}"
    assert found(tokenizer, chat, close="<|shut|>") == ["<|shut|>"]


def test_a_template_without_the_message_says_nothing(tokenizer):
    assert found(tokenizer, "{{ messages[0]['content'] }}<|shut|>") == []


def test_text_that_ends_a_turn_is_refused(tokenizer):
    chat = "{% for m in messages %}{{ m.content }}\n### End\n{% endfor %}"
    message = r"chat_template must end an assistant's message with one token .* got '\\n### End\\n'"
    with pytest.raises(ValueError, match=message):
        found(tokenizer, chat)


# Steps as a user's functions get them

ASKS = {"role": "assistant", "tool_calls": [{"function": {"name": "look", "arguments": {}}}]}
SEES = {"role": "tool", "name": "look", "content": "12"}
SAYS = {"role": "assistant", "content": "12"}


def test_a_turn_is_its_messages_and_has_the_results_that_the_model_saw():
    turns = [Turn(0, 4, 8, True), Turn(8, 12, 12, False)]
    found = steps_of([ASKS, SEES, SEES, SAYS], range(12), [8, 12], turns, None)
    assert found == [[ASKS, SEES, SEES], [SAYS]]
    cut_off = [Turn(0, 4, 8, True), Turn(8, 12, 12, False)]
    found = steps_of([ASKS, SEES, ASKS, SEES], range(12), [8, 12], cut_off, None)
    assert found == [[ASKS, SEES], [ASKS]]  # the last result did not fit


def test_a_last_turn_without_words_has_no_step():
    turns = [Turn(0, 4, 8, True), Turn(8, 8, 9, False)]
    empty = {"role": "assistant", "content": ""}
    assert steps_of([ASKS, SEES, empty], range(9), [8], turns, None) == [[ASKS, SEES]]


def test_the_last_step_of_a_turn_has_its_calls_and_results():
    tokenizer = tiny_tokenizer()
    first, second = tokenizer.encode("Is it 1?"), tokenizer.encode(" Look.")
    end = len(first) + len(second)
    ids = [*first, *second, *tokenizer.encode("12"), *tokenizer.encode("No.")]
    turns = [Turn(0, end, end + 2, True), Turn(end + 2, len(ids), len(ids), False)]
    found = steps_of([ASKS, SEES, SAYS], ids, [len(first), end + 2, len(ids)], turns, tokenizer)
    words = [{"role": "assistant", "content": "Is it 1?"}]
    assert found == [words, [ASKS | {"content": " Look."}, SEES], [SAYS]]


def test_steps_of_a_text_are_texts():
    tokenizer = tiny_tokenizer()
    ids = [*tokenizer.encode("Is it 1? no\n2."), tokenizer.eos_token_id]
    cut = len(tokenizer.encode("Is it 1? no\n"))
    assert steps_of("Is it 1? no\n2.", ids, [cut, len(ids)], (), tokenizer) == [
        "Is it 1? no\n",
        "2.",
    ]
    found = steps_of([SAYS], ids, [cut, len(ids)], (), tokenizer)
    assert found == ["Is it 1? no\n", "2."]


def test_steps_of_an_agents_only_turn_are_messages_too():
    tokenizer = tiny_tokenizer()
    ids = [*tokenizer.encode("Is it 1? no\n2."), tokenizer.eos_token_id]
    cut = len(tokenizer.encode("Is it 1? no\n"))
    turns = [Turn(0, len(ids), len(ids), False)]
    found = steps_of([SAYS], ids, [cut, len(ids)], turns, tokenizer)
    assert found == [[SAYS | {"content": text}] for text in ("Is it 1? no\n", "2.")]
