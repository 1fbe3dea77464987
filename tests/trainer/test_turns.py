"""Completions end as the chat template says, and hold what the model itself wrote."""

import copy
from pathlib import Path

import pytest
import trl
from datasets import Dataset
from transformers import GenerationConfig

from barl_trl import BARLTrainer
from barl_trl.rewards import accuracy_reward
from barl_trl.synthetic.search import search_rows
from barl_trl.trainer.turns import turn_ends

from ..base_model import save_base_model, search_messages
from .rollouts import config
from .test_agents import CHATS, agent, chatting

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


def test_a_base_models_completions_end_where_its_template_ends_a_message(
    base_model, tmp_path, caplog
):
    benchmarks = {"mine": search_messages(4)}
    settings = {"max_completion_length": 96, "eval_strategy": "steps", "eval_steps": 1}
    base = base_trainer(base_model, config(tmp_path, **settings), benchmarks=benchmarks)
    base.train()
    log = {name: value for row in base.state.log_history for name, value in row.items()}
    assert log["completions/clipped_ratio"] == 0
    assert log["reward"] > 0
    assert log["eval_mine/mean_tokens"] < 96
    assert "completions also end with <|im_end|> (359)" in caplog.text
    base.save_model(str(tmp_path))
    expected = ends(base.processing_class)
    assert GenerationConfig.from_pretrained(tmp_path).eos_token_id == expected
    assert log["barl/no_answer"] < 0.5
    assert set(expected) <= set(base.scorer.end_ids)


def test_ends_that_a_user_names_are_known_to_all(base_model, tmp_path):
    args = config(tmp_path, generation_kwargs={"eos_token_id": 5})
    base = base_trainer(base_model, args, conversational=False)
    assert base.eos_token_ids == [360, 5]
    assert base.generation_config.eos_token_id == [360, 5]
    assert base.generation_kwargs["eos_token_id"] == [360, 5]


def test_ends_that_leave_out_the_templates_are_refused(base_model, tmp_path):
    args = config(tmp_path, generation_kwargs={"eos_token_id": [360]})
    with pytest.raises(ValueError, match="the chat template ends"):
        base_trainer(base_model, args)


def test_turns_that_no_mask_tells_apart_are_refused(tmp_path):
    def unmasked(prompts, trainer):
        return chatting(CHATS)(prompts, trainer) | {"env_mask": None}

    with pytest.raises(ValueError, match="env_mask"):
        agent(tmp_path, rollout_func=unmasked).train()


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
