"""Prompts of each family of models: what is said to the model, and what ends its turn."""

from dataclasses import dataclass, field
from typing import Any

from ..data.loading import PAPER_SYSTEM_PROMPT


@dataclass(frozen=True)
class Template:
    """How a problem becomes a prompt.

    Attributes:
        name: The name under which it stands in result files.
        plain: The prompt as text with `{problem}` in it; None for the tokenizer's chat template.
        system_prompt: Content of the system message.
        user: Content of the user message.
        ends: Tokens that end a turn, beside the tokenizer's end-of-sequence token. That of base
            models is not the one which ends a turn.
        variables: Variables of the chat template.
        marker: A token in the chat templates of the family, by which it is recognised.
    """

    name: str
    plain: str | None = None
    system_prompt: str | None = None
    user: str = "{problem}"
    ends: tuple[str, ...] = ()
    variables: dict[str, str] = field(default_factory=dict)
    marker: str = ""

    def prompt(self, tokenizer, problem: str) -> str:
        """Return the whole prompt as text, special tokens included."""
        # Not str.format: problems are full of TeX braces.
        text = (self.plain or self.user).replace("{problem}", problem)
        if self.plain:
            return text
        messages = [("system", self.system_prompt), ("user", text)]
        return tokenizer.apply_chat_template(
            [{"role": role, "content": content} for role, content in messages if content],
            tokenize=False,
            add_generation_prompt=True,
            **self.variables,
        )

    def encode(self, tokenizer, prompt: str) -> list[int]:
        """Return the tokens of a prompt; a chat template has written the first one itself."""
        return tokenizer.encode(prompt, add_special_tokens=bool(self.plain))

    def end_ids(self, tokenizer) -> list[int]:
        """Return the ids of the tokens that end a completion."""
        known = tokenizer.get_vocab()
        ids = {known[token] for token in self.ends if token in known}
        return sorted((ids | {tokenizer.eos_token_id}) - {None})


TEMPLATES = {
    template.name: template
    for template in (
        Template(
            "qwen2.5-math",  # and others with ChatML
            system_prompt=PAPER_SYSTEM_PROMPT,
            ends=("<|im_end|>", "<|endoftext|>"),
            marker="<|im_start|>",
        ),
        Template(
            "r1-distill",  # its authors advise against a system prompt
            user="{problem}\n" + PAPER_SYSTEM_PROMPT,
            ends=("<｜end▁of▁sentence｜>",),
            marker="<｜Assistant｜>",
        ),
        Template(
            "llama-3",
            system_prompt=PAPER_SYSTEM_PROMPT,
            ends=("<|eot_id|>", "<|eom_id|>", "<|end_of_text|>"),
            # the chat template writes a date: today's would make prompts differ from day to day
            variables={"date_string": "26 Jul 2024"},
            marker="<|start_header_id|>",
        ),
        Template("plain", plain="{problem}\n"),
    )
}


def choose_template(name: str, tokenizer) -> Template:
    """Return the template with a name, or the one that fits a tokenizer.

    Args:
        name: A name of [`TEMPLATES`], a text with `{problem}` in it, or `"auto"`: by the tokens in
            the tokenizer's chat template, which fine-tuned models keep under any name; `plain`
            where there is none.
        tokenizer: The model's.

    Raises:
        ValueError: If there is no such template, or it does not fit the tokenizer.
    """
    chat: Any = tokenizer.chat_template
    if name == "auto" and chat is None:
        return TEMPLATES["plain"]
    if name == "auto":
        fitting = [t for t in TEMPLATES.values() if t.marker and t.marker in str(chat)]
        if len(fitting) != 1:
            raise ValueError(
                f"template must be named for this model, got 'auto': its chat template is not of "
                f"one of the families {', '.join(TEMPLATES)}. qwen2.5-math has a system prompt, "
                "r1-distill has the instruction in the user's message."
            )
        return fitting[0]
    if "{problem}" in name:
        return Template(name, plain=name)
    if name not in TEMPLATES:
        raise ValueError(
            f"template must be auto, {', '.join(TEMPLATES)} or a text with {{problem}}, got "
            f"{name!r}: choose one of them."
        )
    if chat is None and not TEMPLATES[name].plain:
        raise ValueError(
            f"template must be plain, or a text with {{problem}}, got {name!r}: the tokenizer has "
            "no chat template."
        )
    return TEMPLATES[name]
