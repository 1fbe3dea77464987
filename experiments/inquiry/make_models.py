"""Makes the models of the games of finding out: `make inquiry-models`, minutes for each.

A small Qwen2 for each game is trained, on one core, on games that a *random asker* plays. It calls
the tool in the right form, and its answer agrees with what it was told. What it asks and when it
stops is random. Reinforcement learning is left to teach it to ask, and to ask well.

The chat template is Qwen2.5's, which TRL knows. Its texts and the tool's schema are one token
each, so that a game has a few dozen tokens; other texts are encoded as bytes.
"""

import argparse
import inspect
import random
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
import trl
from scripts.small_models import IGNORED, Batch, Choices, byte_tokenizer, make, random_qwen2
from tokenizers import AddedToken
from transformers import PreTrainedTokenizerFast, Qwen2ForCausalLM

from barl_trl.plausibility.elicitation import DEFAULT_ELICITATION

from .environments import GAMES, InquiryEnvironment, model_dir
from .inquiry import Inquiry

TEMPLATE = Path(trl.__file__).parent / "chat_templates" / "qwen2_5.jinja"

SEED = 0
BATCH_SIZE, WARMUP_STEPS = 64, 50
PEAK_LEARNING_RATE = 3e-3
ASKED_SHARE = 0.2  # rows that stop before a turn, or behind the last one, to ask for the answer

CALL_END, RESULT_OPENING = "}\n</tool_call>", "\n<|im_start|>user\n<tool_response>\n"
RESULT_END = "\n</tool_response><|im_end|>\n<|im_start|>assistant\n"
ANSWER, END = "\\boxed", "<|im_end|>"
ELICITATION = DEFAULT_ELICITATION.lstrip("\n")


class Asker(NamedTuple):
    """How a game's random asker is learned from."""

    most_questions: int
    hidden_size: int
    layers: int
    steps: int
    learns_beliefs: bool = False
    """Whether questions and answers are learned from their distribution, not from a draw: what
    replies say of many hypotheses is not learned from draws in minutes."""
    guesses: bool = False
    """Whether questions are guesses, whose replies are hard to learn from. Then the embedding of a
    text begins as the sum of the embeddings of its letters (by their place, and anywhere), games
    have one question in the first quarter of the steps, and the belief is also learned at the end
    of each reply."""
    asks_open: bool = False
    """Whether every second game has only questions whose reply is not known yet. They are learned
    as if all were as likely, so the model learns to conclude from good questions, not to ask."""


ASKERS = {
    "number": Asker(most_questions=4, hidden_size=64, layers=3, steps=1000),
    "number64": Asker(6, 64, layers=3, steps=5000, learns_beliefs=True, asks_open=True),
    "code": Asker(4, hidden_size=96, layers=3, steps=8000, learns_beliefs=True, guesses=True),
    "words": Asker(4, hidden_size=96, layers=3, steps=8000, learns_beliefs=True, guesses=True),
    "animals": Asker(most_questions=8, hidden_size=64, layers=3, steps=4000, learns_beliefs=True),
}


class Row(NamedTuple):
    """A game of the asker."""

    ids: list[int]
    """Its tokens."""
    own: list[int]
    """1 for each that the asker wrote."""
    choices: dict[int, tuple[list[int], np.ndarray]]
    """Position of a question or an answer -> the tokens it was drawn from, their probabilities."""
    beliefs: dict[int, np.ndarray]
    """Position behind a reply -> the belief: the probability of each hypothesis."""


def tool_of(game: type[InquiryEnvironment]):
    """Return the method with which a game asks."""
    tools = [f for name, f in vars(game).items() if inspect.isfunction(f) and name[0] != "_"]
    return tools[0]


def call_opening(game: type[InquiryEnvironment]) -> str:
    """Return a call of the game's tool up to the question, in Qwen2.5's form."""
    tool = tool_of(game)
    parameter = [*inspect.signature(tool).parameters.values()][1]
    quote = "" if parameter.annotation is int else '"'
    return f'<tool_call>\n{{"name": "{tool.__name__}", "arguments": {{"{parameter.name}": {quote}'


def chat_tokenizer() -> Any:
    """Return a tokenizer of bytes, with the chat template and its markers."""
    return PreTrainedTokenizerFast(
        tokenizer_object=byte_tokenizer(),
        pad_token="<|endoftext|>",
        eos_token="<|im_end|>",
        chat_template=TEMPLATE.read_text(encoding="utf-8"),
        padding_side="left",
        clean_up_tokenization_spaces=False,
        model_max_length=4096,
    )


def make_tokenizer(game: type[InquiryEnvironment]) -> Any:
    """Return a tokenizer of bytes, with added tokens for the game's texts."""
    tokenizer = chat_tokenizer()
    inquiry = game.inquiry
    # what stands before the tool's schema, the schema, and what stands behind it
    before, _, behind = prompt_text(tokenizer, game, "Game ").partition("Game ")
    pieces = [*(f"{part}</tools>" for part in before.split("</tools>"))]
    pieces[-1] = pieces[-1].removesuffix("</tools>")
    pieces += ["Game ", f". {inquiry.message}", behind.removeprefix("<|im_end|>")]
    closing = '"' + "}" + CALL_END if call_opening(game).endswith('"') else "}" + CALL_END
    pieces += [call_opening(game), closing, RESULT_OPENING, RESULT_END]
    pieces += [ANSWER, ELICITATION, "{", "}", "}."]
    pieces += dict.fromkeys([*inquiry.replies, *inquiry.questions, *inquiry.hypotheses])
    tokenizer.add_tokens([AddedToken(piece, normalized=False, special=False) for piece in pieces])
    return tokenizer


def prompt_text(tokenizer: Any, game: type[InquiryEnvironment], message: str) -> str:
    """Return the text of a prompt, as TRL renders it."""
    return tokenizer.apply_chat_template(
        [{"role": "user", "content": message}],
        tools=[getattr(game(), tool_of(game).__name__)],
        add_generation_prompt=True,
        tokenize=False,
    )


def training_row(
    encode: Callable[[str], list[int]],
    game: type[InquiryEnvironment],
    prompt: tuple[str, str],
    asker: Asker,
    rng: random.Random,
    least_questions: int = 0,
) -> Row:
    """Play a game of the random asker, which ends with an answer drawn from what may be true."""
    inquiry: Inquiry = game.inquiry
    opening = call_opening(game)
    closing = '"' + "}" + CALL_END if opening.endswith('"') else "}" + CALL_END
    secret = rng.choice(inquiry.hypotheses)
    belief = np.ones(len(inquiry.hypotheses))
    ids = [*encode(f"{prompt[0]}{rng.randrange(10_000):04}{prompt[1]}")]
    row = Row(ids, [0] * len(ids), {}, {})

    def say(text: str, is_own: bool) -> None:
        words = encode(text)
        row.ids.extend(words)
        row.own.extend([int(is_own)] * len(words))

    def choose(chosen: str, texts: Sequence[str], weights: Sequence[float]) -> None:
        if asker.learns_beliefs:
            tokens = [encode(text)[0] for text in texts]
            row.choices[len(row.ids)] = tokens, np.asarray(weights) / np.sum(weights)
        say(chosen, is_own=not asker.learns_beliefs)

    is_open = asker.asks_open and rng.random() < 0.5
    for _ in range(rng.randint(least_questions, asker.most_questions)):
        texts = open_questions(inquiry, belief) if is_open else inquiry.questions
        question = rng.choice(texts or inquiry.questions)
        reply = inquiry.reply(question, secret, rng)
        say(opening, True)
        choose(question, inquiry.questions, [1.0] * len(inquiry.questions))
        say(closing + END, True)
        say(RESULT_OPENING + reply + RESULT_END, False)
        belief = belief * np.exp(inquiry.log_likelihoods(question, reply))
        row.beliefs[len(row.ids)] = belief / belief.sum()
    answer = rng.choices(inquiry.hypotheses, belief.tolist())[0]
    is_asked, is_over = rng.random() < ASKED_SHARE, rng.random() < 0.3
    if is_over or not is_asked:
        say(ANSWER + "{", True)
        choose(answer, inquiry.hypotheses, belief.tolist())
        say("}", True)
    if is_asked:
        say(DEFAULT_ELICITATION if is_over else ELICITATION, False)
        say("{", True)
        choose(answer, inquiry.hypotheses, belief.tolist())
        say("}.", True)
    else:
        say(END, True)
    return row


def open_questions(inquiry: Inquiry, belief: np.ndarray) -> list[str]:
    """Return the questions whose right reply depends on which possible hypothesis is true."""
    replies = inquiry.table[:, belief > 0]
    differ = (replies != replies[:, :1]).any(axis=1)
    return [text for text, is_open in zip(inquiry.questions, differ, strict=True) if is_open]


def batches(game: type[InquiryEnvironment], asker: Asker, tokenizer: Any) -> Iterator[Batch]:
    """Yield the random asker's games."""
    rng = random.Random(SEED)
    encode = cache(tokenizer.encode)
    hypotheses = torch.tensor([encode(text)[0] for text in game.inquiry.hypotheses])
    before, _, behind = prompt_text(tokenizer, game, game.inquiry.prompt(1)).partition("0001")
    for step in range(asker.steps):
        is_single = asker.guesses and step < asker.steps // 4
        now = asker._replace(most_questions=1) if is_single else asker
        rows = [
            training_row(encode, game, (before, behind), now, rng, int(is_single))
            for _ in range(BATCH_SIZE)
        ]
        length = max(len(row.ids) for row in rows)
        input_ids = torch.full((BATCH_SIZE, length), tokenizer.pad_token_id)
        labels = torch.full((BATCH_SIZE, length), IGNORED)
        for n, row in enumerate(rows):
            tokens, is_own = torch.tensor(row.ids), torch.tensor(row.own) == 1
            input_ids[n, : len(tokens)] = tokens
            labels[n, : len(tokens)] = tokens.where(is_own, torch.tensor(IGNORED))
        learned = []
        if asker.learns_beliefs:
            learned.append(choices(rows, len(tokenizer)))
        if asker.guesses and any(row.beliefs for row in rows):
            learned.append(conclusions(rows, hypotheses))
        yield Batch(input_ids, labels, choices=learned)


def make_model(game: type[InquiryEnvironment], asker: Asker, tokenizer: Any) -> Qwen2ForCausalLM:
    """Return a model of random weights, in which texts may begin as the sum of their letters."""
    model: Any = random_qwen2(
        tokenizer,
        seed=SEED,
        hidden_size=asker.hidden_size,
        layers=asker.layers,
        positions=4096,
    )
    if asker.guesses:
        embeddings = model.get_input_embeddings().weight.detach()
        size = embeddings.std()
        of_letter = defaultdict(partial(torch.randn, asker.hidden_size))
        for text in dict.fromkeys([*game.inquiry.hypotheses, *game.inquiry.replies]):
            parts = torch.stack([of_letter[key] for key in [*enumerate(text), *sorted({*text})]])
            embeddings[tokenizer.encode(text)] = parts.sum(dim=0) * size / len(parts) ** 0.5
    return model


def choices(rows: Sequence[Row], vocabulary: int) -> Choices:
    """Return what the questions and answers of a batch were drawn from."""
    places = [(n, position) for n, row in enumerate(rows) for position in row.choices]
    probabilities = torch.zeros(len(places), vocabulary)
    for line, (n, position) in zip(probabilities, places, strict=True):
        tokens, shares = rows[n].choices[position]
        line[tokens] = torch.from_numpy(shares).float()
    lines, positions = torch.tensor(places).unbind(dim=1)
    return Choices(lines, positions, probabilities)


def conclusions(rows: Sequence[Row], hypotheses: torch.Tensor) -> Choices:
    """Return the belief behind each reply of a batch, over the tokens of the hypotheses alone."""
    places = [(n, position) for n, row in enumerate(rows) for position in row.beliefs]
    beliefs = np.stack([belief for row in rows for belief in row.beliefs.values()])
    probabilities = torch.from_numpy(beliefs).float()
    lines, positions = torch.tensor(places).unbind(dim=1)
    return Choices(lines, positions, probabilities, hypotheses)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("game", choices=ASKERS)
    parser.add_argument("--output", type=Path, help="folder to write")
    options = parser.parse_args()
    game, asker = GAMES[options.game], ASKERS[options.game]
    make(
        options.output or model_dir(options.game),
        partial(make_tokenizer, game),
        partial(make_model, game, asker),
        partial(batches, game, asker),
        steps=asker.steps,
        warmup_steps=WARMUP_STEPS,
        peak_learning_rate=PEAK_LEARNING_RATE,
    )
