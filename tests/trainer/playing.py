"""Agents whose words are given, so that everything behind TRL's real loop can be computed by hand.

The model is real; a logits processor makes its `generate` say the words of a play: a list of turns
for each rollout.
"""

import inspect
import json
from pathlib import Path

import torch
import trl
from transformers import LogitsProcessor

from barl_trl import BARLTrainer

from ..tiny import tiny_model, tiny_tokenizer
from .rollouts import config, output_of

TEMPLATES = Path(trl.__file__).parent / "chat_templates"
MARKUP = ["<think>", "</think>", "<tool_call>", "</tool_call>", "<tool_response>"]
MARKUP += ["</tool_response>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"]
MARKUP += ["<|begin_of_text|>", "<|eom_id|>", "<|python_tag|>"]


WORDS = ['{"name": "', '", "arguments": {"', '", "parameters": {"', "}}", "compare", "submit"]
WORDS += ["number", "look", '": ', "description", '"type": "', "function", "properties"]
WORDS += ["arguments", "signature", "object", "required", "return", " the ", "You ", "with "]
"""Texts that are one token, so that tests are quick."""


def agent_tokenizer(family="qwen2_5"):
    made = tiny_tokenizer()
    made.add_tokens(MARKUP, special_tokens=True)
    made.add_tokens(WORDS)
    if family.startswith("llama"):
        made.eos_token, made.bos_token = "<|eot_id|>", "<|begin_of_text|>"
    made.chat_template = (TEMPLATES / f"{family}.jinja").read_text(encoding="utf-8")
    return made


def call(name, family="qwen2_5", **arguments):
    """The text of a call as the family's template writes it."""
    if family.startswith("llama"):
        return json.dumps({"name": name, "parameters": arguments})
    return f"<tool_call>\n{json.dumps({'name': name, 'arguments': arguments})}\n</tool_call>"


def described(tool):
    """Gives a function the docstring without which TRL takes no tool."""
    names = [name for name in inspect.signature(tool).parameters if name != "self"]
    of_each = "".join(f"    {name}: The {name}.\n" for name in names)
    tool.__doc__ = f"{tool.__name__.capitalize()}.\n\nArgs:\n{of_each}"
    return tool


class Script(LogitsProcessor):
    """Lets row n of the first `generate` say the turns of play n, and goes on with them later.

    A turn that ends with "…" is not ended.
    """

    def __init__(self, tokenizer, plays):
        self.tokenizer, self.plays = tokenizer, plays
        self.said = [None] * len(plays)
        self.turn = [0] * len(plays)
        self.calls = []

    def begin(self, rows):
        left = [n for n, said in enumerate(self.said) if said]
        self.playing = []
        for row in rows:
            n = next((n for n in left if row[: len(self.said[n])] == self.said[n]), None)
            if n is None:  # a new rollout batch
                self.said, self.turn = [None] * len(self.plays), [0] * len(self.plays)
                self.playing = [*range(len(rows))]
                break
            left.remove(n)
            self.playing.append(n)
        self.calls.append(len(rows))
        self.prompts = rows
        self.words = [self._ids(self.plays[n][self.turn[n]]) for n in self.playing]
        self.told = 0

    def _ids(self, text):
        is_open = text.endswith("…")
        ids = self.tokenizer.encode(text.removesuffix("…"), add_special_tokens=False)
        return ids if is_open else [*ids, self.tokenizer.eos_token_id]

    def __call__(self, input_ids, scores):
        scores[:] = -1e9
        for row, words in enumerate(self.words):
            scores[row, words[min(self.told, len(words) - 1)]] = 0.0
        self.told += 1
        return scores

    def end(self):
        for row, n in enumerate(self.playing):
            self.said[n] = [*self.prompts[row], *self.words[row]]
            self.turn[n] += 1


def speaking(model, tokenizer, plays):
    """Let the model's `generate` say the plays, each once."""
    script, generate = Script(tokenizer, plays), type(model).generate

    def say(**kwargs):
        mask = kwargs["attention_mask"].bool()
        rows = [ids[own].tolist() for ids, own in zip(kwargs["input_ids"], mask, strict=True)]
        script.begin(rows)
        output = generate(model, **kwargs, logits_processor=[script])
        script.end()
        return output

    model.generate = say
    return script


def played(trainer, rows, plays):
    """What TRL returns for a rollout batch of these plays, one for each row."""
    script = speaking(trainer.model, trainer._tokenizer, plays)
    output = output_of(trainer, rows)
    trainer.script = script
    return output


def taught(model, tokenizer, dialogs, *, tools, steps):
    """Train a model until it says the assistant's messages of these dialogs."""
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    texts = []
    for dialog in dialogs:
        for n, message in enumerate(dialog):
            if message["role"] == "assistant":
                before = tokenizer.apply_chat_template(
                    dialog[:n], tools=tools, add_generation_prompt=True, tokenize=False
                )
                whole = tokenizer.apply_chat_template(dialog[: n + 1], tools=tools, tokenize=False)
                assert whole.startswith(before)
                ids = tokenizer.encode(whole.rstrip("\n"), add_special_tokens=False)
                texts.append((torch.tensor([ids]), len(tokenizer.encode(before))))
    for step in range(steps):
        ids, start = texts[step % len(texts)]
        labels = ids.clone()
        labels[:, :start] = -100
        model(input_ids=ids, labels=labels).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    return model


def dialog(*said):
    roles = ("user", "assistant", "tool", "assistant")
    return [{"role": role, "content": text} for role, text in zip(roles, said, strict=True)]


def save_taught(folder, dialogs, *, tools, steps=120, **size):
    """Saves a model that says the assistant's messages of these dialogs, and its tokenizer."""
    tokenizer = agent_tokenizer()
    model = tiny_model(tokenizer, std=0.05, **size)
    model.config.max_position_embeddings = 1024
    taught(model, tokenizer, dialogs, tools=tools, steps=steps).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


class Keeping(BARLTrainer):
    """Keeps what was generated and how it was scored."""

    def _score(self, **kwargs):
        self.generated = self._generated
        self.scored = super()._score(**kwargs)
        return self.scored


def agent_config(tmp_path, **kwargs):
    return config(tmp_path, **{"max_completion_length": 300} | kwargs)
