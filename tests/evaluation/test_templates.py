"""Prompts, to the character."""

from copy import deepcopy
from pathlib import Path

import pytest
import trl
import yaml
from transformers import AutoTokenizer

from barl_trl.data import PAPER_SYSTEM_PROMPT
from barl_trl.evaluation.provenance import record_training
from barl_trl.evaluation.templates import TEMPLATES, choose_template

PROBLEM = r"Simplify $\frac{2}{4}$."

CHAT_TEMPLATES = Path(trl.__file__).parent / "chat_templates"
"""The families' own, as TRL ships them."""


@pytest.fixture
def tokenizer_with(tokenizer):
    def make(chat_template, bos_token=None):
        copy = deepcopy(tokenizer)
        copy.chat_template, copy.bos_token = chat_template, bos_token
        return copy

    return make


PROMPTS = yaml.safe_load(Path(__file__).with_name("prompts.yaml").read_text(encoding="utf-8"))


@pytest.mark.parametrize("family", PROMPTS)
def test_a_family_is_asked_in_its_own_way(tokenizer_with, family):
    chat, bos_token, prompt = PROMPTS[family].values()
    chat = chat and (CHAT_TEMPLATES / chat).read_text()
    prompt = prompt.replace("SYSTEM", PAPER_SYSTEM_PROMPT).replace("PROBLEM", PROBLEM)
    tokenizer = tokenizer_with(chat, bos_token)
    template = choose_template("auto", tokenizer)
    assert (template.name, template.prompt(tokenizer, PROBLEM)) == (family, prompt)


TRAINED = {"system_prompt": "Be brief.", "prompt_template": None, "chat_template_kwargs": None}


@pytest.mark.parametrize("chat", ["qwen2_5.jinja", "qwen3.jinja", None])
def test_a_trained_model_is_asked_as_in_training(tokenizer_with, tmp_path, chat):
    tokenizer = tokenizer_with((CHAT_TEMPLATES / chat).read_text() if chat else None)
    thinking = {"enable_thinking": False}
    if chat:
        record_training(tokenizer, **TRAINED | {"chat_template_kwargs": thinking})
        said = {"system": "Be brief.", "user": PROBLEM}
        messages = [{"role": role, "content": text} for role, text in said.items()]
        options = {"tokenize": False, "add_generation_prompt": True} | thinking
        expected = tokenizer.apply_chat_template(messages, **options)
    else:
        record_training(tokenizer, **TRAINED | {"prompt_template": "Q: {problem}"})
        expected = f"Q: {PROBLEM}"
    tokenizer.save_pretrained(tmp_path)
    loaded = AutoTokenizer.from_pretrained(tmp_path)
    template = choose_template("auto", loaded)
    assert (template.name, template.prompt(loaded, PROBLEM)) == ("as trained", expected)
    family = choose_template("qwen2.5-math" if chat else "plain", loaded)
    assert template.end_ids(loaded) == family.end_ids(loaded)


def test_another_system_prompt_and_variables_of_the_chat_template(tokenizer_with):
    tokenizer = tokenizer_with((CHAT_TEMPLATES / "qwen3.jinja").read_text())
    for text, shown in {"Be brief.": "system\nBe brief.", "": "user"}.items():
        template = choose_template("auto", tokenizer, system_prompt=text)
        assert template.prompt(tokenizer, PROBLEM).startswith(f"<|im_start|>{shown}")
    template = choose_template("auto", tokenizer, variables={"enable_thinking": False})
    assert template.prompt(tokenizer, PROBLEM).endswith("<think>\n\n</think>\n\n")
    for option in ({"variables": {"enable_thinking": False}}, {"system_prompt": "Be brief."}):
        with pytest.raises(ValueError, match=r"must be left out .* plain text"):
            choose_template("Q: {problem}\nA:", tokenizer, **option)


def test_the_tokens_of_a_prompt_are_its_text_and_no_more(tokenizer):
    template = choose_template("auto", tokenizer)
    prompt = template.prompt(tokenizer, PROBLEM)
    assert tokenizer.decode(template.encode(tokenizer, prompt)) == prompt


def test_a_turn_ends_with_any_of_the_familys_tokens(tokenizer):
    ends = [tokenizer.convert_tokens_to_ids(t) for t in ("<|endoftext|>", "<|im_end|>")]
    assert TEMPLATES["qwen2.5-math"].end_ids(tokenizer) == sorted(ends)
    assert TEMPLATES["llama-3"].end_ids(tokenizer) == [tokenizer.eos_token_id]


def test_a_template_that_does_not_fit_is_refused(tokenizer_with):
    for name, chat in (("llama-3", None), ("qwen", None), ("auto", "{{ messages[0]['content'] }}")):
        with pytest.raises(ValueError, match="template must be"):
            choose_template(name, tokenizer_with(chat))
