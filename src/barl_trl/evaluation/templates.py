"""Prompts of each family of models, and the tokens that end a turn of the model."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from transformers import AutoTokenizer

from ..data import PAPER_SYSTEM_PROMPT, make_prompt
from ..trainer.resume import last_checkpoint
from ..trainer.turns import turn_ends

PROMPT = "barl_prompt"
"""Key of `tokenizer_config.json` under which training notes how it wrote prompts."""


@dataclass(frozen=True)
class Template:
    """How a problem becomes a prompt."""

    name: str
    plain: str | None = None  # the prompt as text with {problem}; None: by the chat template
    system_prompt: str | None = None  # "" is none, too
    user: str = "{problem}"
    ends: tuple[str, ...] = ()  # tokens that end a turn beside the tokenizer's
    variables: Mapping[str, Any] = field(default_factory=dict)  # of the chat template
    marker: str = ""  # a token in the chat templates of the family, by which it is recognised

    def messages(self, problem: str) -> list[dict[str, str]]:
        """Return the messages of the prompt; the template must not be plain."""
        how: Any = {"system_prompt": self.system_prompt, "prompt_format": self.user}
        return make_prompt(problem, conversational=True, **how)

    def prompt(self, tokenizer: Any, problem: str) -> str:
        """Return the whole prompt as text, special tokens included."""
        if self.plain:
            return self.plain.replace("{problem}", problem)
        return tokenizer.apply_chat_template(
            self.messages(problem), tokenize=False, add_generation_prompt=True, **self.variables
        )

    def encode(self, tokenizer: Any, prompt: str) -> list[int]:
        """Return the token ids of a prompt."""
        # a chat template has already written the special token that begins the text
        return tokenizer.encode(prompt, add_special_tokens=bool(self.plain))

    def end_ids(self, tokenizer: Any) -> list[int]:
        """Return the ids of the tokens that end a completion."""
        vocabulary = tokenizer.get_vocab()
        ids = {vocabulary[token] for token in self.ends if token in vocabulary}
        ends = sorted((ids | {tokenizer.eos_token_id}) - {None})
        return ends if self.plain else turn_ends(tokenizer, ends, **self.variables)


_TEMPLATES = (
    Template(
        "qwen2.5-math",  # also fits other models with ChatML
        system_prompt=PAPER_SYSTEM_PROMPT,
        ends=("<|endoftext|>",),
        marker="<|im_start|>",
    ),
    Template(
        "r1-distill",  # its authors advise against a system prompt
        user="{problem}\n" + PAPER_SYSTEM_PROMPT,
        marker="<｜Assistant｜>",
    ),
    Template(
        "llama-3",
        system_prompt=PAPER_SYSTEM_PROMPT,
        ends=("<|eom_id|>", "<|end_of_text|>"),
        # the chat template writes a date; with today's, prompts would differ from day to day
        variables={"date_string": "26 Jul 2024"},
        marker="<|start_header_id|>",
    ),
    Template("plain", plain="{problem}\n"),
)
TEMPLATES = {template.name: template for template in _TEMPLATES}


def read_tokenizer(model: str, argument: str, **options: Any) -> Any:
    """Return a model's tokenizer; a ValueError names the argument. It runs no model's code."""
    try:
        return AutoTokenizer.from_pretrained(model, **{"trust_remote_code": False} | options)
    except (OSError, ValueError) as error:  # not all of transformers' messages name the model
        inside = last_checkpoint(model)[0]
        why = f"name a checkpoint in it, such as {inside}" if inside else error
        raise ValueError(f"{argument} must be one that can be read, got {model!r}: {why}") from None


def choose_template(
    name: str,
    tokenizer: Any,
    system_prompt: str | None = None,
    variables: Mapping[str, Any] | None = None,
) -> Template:
    """Return the template with a name, or the one that fits a tokenizer, or raise a ValueError.

    The name is one of [`TEMPLATES`], a text with `{problem}` in it, or `"auto"`: the template that
    `barl train` noted in the tokenizer; else that of the family whose marker stands in the chat
    template, which fine-tuned models keep under any name; else `plain`. System prompt and variables
    replace the template's own; "" is no system message.
    """
    template = _chosen(name, tokenizer)
    given = [system_prompt, variables]
    if template.plain and given != [None, None]:
        raise ValueError(
            f"system_prompt and chat_template_kwargs must be left out with {template.name!r}, got "
            f"{given}: it is plain text. Write what you want into a text with {{problem}}."
        )
    if system_prompt is not None:
        template = replace(template, system_prompt=system_prompt)
    return replace(template, variables={**template.variables, **(variables or {})})


def _chosen(name: str, tokenizer: Any) -> Template:
    """Return the template with a name, with its own system prompt."""
    chat = tokenizer.chat_template
    fitting = [one for one in _TEMPLATES if one.marker and one.marker in str(chat)]
    family = fitting[0] if len(fitting) == 1 else None
    if name == "auto" and PROMPT in tokenizer.init_kwargs:
        noted = tokenizer.init_kwargs[PROMPT]
        plain, variables = noted["prompt_template"], noted["chat_template_kwargs"]
        base = (not plain and family) or Template("")
        return replace(
            base,
            name="as trained",
            plain=plain,
            system_prompt=noted["system_prompt"],
            user="{problem}",
            variables={**base.variables, **variables},
        )
    if name == "auto" and (family or chat is None):
        return family or TEMPLATES["plain"]
    if "{problem}" in name:
        return Template(name, plain=name)
    if name not in TEMPLATES or (chat is None and not TEMPLATES[name].plain):
        raise ValueError(
            f"template must be {', '.join(TEMPLATES)} or a text with {{problem}}, and fit the "
            f"tokenizer, got {name!r} for one with {'no' if chat is None else 'another'} chat "
            "template: qwen2.5-math has a system prompt, r1-distill has the instruction in the "
            "user's message."
        )
    return TEMPLATES[name]
