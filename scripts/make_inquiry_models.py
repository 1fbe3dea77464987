"""Makes the models of the games of finding out: `make inquiry-models`, minutes for each.

A small Qwen2 for each game of `barl_trl.synthetic.inquiry` is trained, on one core, on games that a
*random asker* plays. It calls the tool in the right form. Its answer agrees with what it was told
(numbers, animals) or is a guess (codes, words: it did not learn what a reply means). What it asks
and when it stops is random. Reinforcement learning is left to teach it to ask, and to ask well.

The chat template is Qwen2.5's, which TRL knows. Its texts and the tool's schema are one token
each, so that a game has a few dozen tokens; other texts are encoded as bytes.
"""

import argparse
import inspect
import random
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
import trl
from small_models import IGNORED, Batch, Choices, byte_tokenizer, make, random_qwen2
from tokenizers import AddedToken
from transformers import PreTrainedTokenizerFast

from barl_trl.plausibility.elicitation import DEFAULT_ELICITATION
from barl_trl.synthetic.inquiry import (
    GAMES,
    CodeGame,
    Inquiry,
    InquiryEnvironment,
    WordGame,
    inquiry_model_dir,
)

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


ASKERS = {
    "number": Asker(most_questions=4, hidden_size=64, layers=3, steps=1000),
    "code": Asker(most_questions=4, hidden_size=96, layers=3, steps=3000),
    "words": Asker(most_questions=4, hidden_size=96, layers=3, steps=3000),
    "animals": Asker(most_questions=8, hidden_size=64, layers=3, steps=4000, learns_beliefs=True),
}


class Row(NamedTuple):
    """A game of the asker."""

    ids: list[int]
    """Its tokens."""
    own: list[int]
    """1 for each that the asker wrote."""
    choices: dict[int, dict[int, float]]
    """Position of a question or an answer -> what it was drawn from: probability of each token."""


def tool_of(game: type[InquiryEnvironment]):
    """The method with which a game asks."""
    tools = [f for name, f in vars(game).items() if inspect.isfunction(f) and name[0] != "_"]
    return tools[0]


def call_opening(game: type[InquiryEnvironment]) -> str:
    """A call of the game's tool up to the question, in Qwen2.5's form."""
    tool = tool_of(game)
    parameter = [*inspect.signature(tool).parameters.values()][1]
    quote = "" if parameter.annotation is int else '"'
    return f'<tool_call>\n{{"name": "{tool.__name__}", "arguments": {{"{parameter.name}": {quote}'


def make_tokenizer(game: type[InquiryEnvironment]) -> PreTrainedTokenizerFast:
    """A tokenizer of bytes, with added tokens for the game's texts."""
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=byte_tokenizer(),
        pad_token="<|endoftext|>",
        eos_token="<|im_end|>",
        chat_template=TEMPLATE.read_text(encoding="utf-8"),
        padding_side="left",
        clean_up_tokenization_spaces=False,
        model_max_length=4096,
    )
    inquiry = game.inquiry
    # what stands before the tool's schema, the schema, and what stands behind it
    before, _, behind = prompt_text(tokenizer, game, "Game ").partition("Game ")
    pieces = [*(f"{part}</tools>" for part in before.split("</tools>"))]
    pieces[-1] = pieces[-1].removesuffix("</tools>")
    pieces += ["Game ", f". {inquiry.message}", behind.removeprefix("<|im_end|>")]
    closing = '"' + "}" + CALL_END if call_opening(game).endswith('"') else "}" + CALL_END
    pieces += [call_opening(game), closing, RESULT_OPENING, RESULT_END]
    pieces += [ANSWER, ELICITATION, "{", "}", "}."]
    spelled = {
        CodeGame: [*inquiry.hypotheses],
        WordGame: [*inquiry.hypotheses, *inquiry.replies],
    }
    whole = dict.fromkeys([*inquiry.replies, *inquiry.questions, *inquiry.hypotheses])
    pieces += [text for text in whole if text not in spelled.get(game, ())]
    tokenizer.add_tokens([AddedToken(piece, normalized=False, special=False) for piece in pieces])
    return tokenizer


def prompt_text(
    tokenizer: PreTrainedTokenizerFast, game: type[InquiryEnvironment], message: str
) -> str:
    """The text of a prompt, as TRL renders it."""
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
) -> Row:
    """A game of the random asker, which ends with an answer drawn from what may be true."""
    inquiry: Inquiry = game.inquiry
    opening = call_opening(game)
    closing = '"' + "}" + CALL_END if opening.endswith('"') else "}" + CALL_END
    secret = rng.choice(inquiry.hypotheses)
    belief = np.ones(len(inquiry.hypotheses))
    ids = [*encode(f"{prompt[0]}{rng.randrange(10_000):04}{prompt[1]}")]
    row = Row(ids, [0] * len(ids), {})

    def say(text: str, is_own: bool) -> None:
        words = encode(text)
        row.ids.extend(words)
        row.own.extend([int(is_own)] * len(words))

    def choose(chosen: str, texts: Sequence[str], weights: Sequence[float]) -> None:
        if asker.learns_beliefs:
            shares = np.asarray(weights) / np.sum(weights)
            row.choices[len(row.ids)] = {
                encode(text)[0]: share for text, share in zip(texts, shares, strict=True)
            }
        say(chosen, is_own=not asker.learns_beliefs)

    for _ in range(rng.randint(0, asker.most_questions)):
        question = rng.choice(inquiry.questions)
        reply = inquiry.reply(question, secret, rng)
        say(opening, True)
        choose(question, inquiry.questions, [1.0] * len(inquiry.questions))
        say(closing + END, True)
        say(RESULT_OPENING + reply + RESULT_END, False)
        belief = belief * np.exp(inquiry.log_likelihoods(question, reply))
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


def batches(
    game: type[InquiryEnvironment], asker: Asker, tokenizer: PreTrainedTokenizerFast
) -> Iterator[Batch]:
    """The random asker's games."""
    rng = random.Random(SEED)
    encode = cache(tokenizer.encode)
    before, _, behind = prompt_text(tokenizer, game, game.inquiry.prompt(1)).partition("0001")
    for _ in range(asker.steps):
        rows = [training_row(encode, game, (before, behind), asker, rng) for _ in range(BATCH_SIZE)]
        length = max(len(row.ids) for row in rows)
        input_ids = torch.full((BATCH_SIZE, length), tokenizer.pad_token_id)
        labels = torch.full((BATCH_SIZE, length), IGNORED)
        for n, (ids, own, _) in enumerate(rows):
            tokens = torch.tensor(ids)
            input_ids[n, : len(ids)] = tokens
            labels[n, : len(ids)] = tokens.where(torch.tensor(own) == 1, torch.tensor(IGNORED))
        yield Batch(input_ids, labels, choices=choices(rows, len(tokenizer)))


def choices(rows: Sequence[Row], vocabulary: int) -> Choices | None:
    """What the questions and answers of a batch were drawn from; None if draws are learned."""
    places = [(n, position) for n, row in enumerate(rows) for position in row.choices]
    if not places:
        return None
    probabilities = torch.zeros(len(places), vocabulary)
    for line, (n, position) in zip(probabilities, places, strict=True):
        shares = rows[n].choices[position]
        line[[*shares]] = torch.tensor([*shares.values()], dtype=torch.float32)
    return Choices(*torch.tensor(places).unbind(dim=1), probabilities)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("game", choices=ASKERS)
    parser.add_argument("--output", type=Path, help="folder to write")
    options = parser.parse_args()
    game, asker = GAMES[options.game], ASKERS[options.game]
    make(
        options.output or inquiry_model_dir(options.game),
        partial(make_tokenizer, game),
        partial(
            random_qwen2,
            seed=SEED,
            hidden_size=asker.hidden_size,
            layers=asker.layers,
            positions=4096,
        ),
        partial(batches, game, asker),
        steps=asker.steps,
        warmup_steps=WARMUP_STEPS,
        peak_learning_rate=PEAK_LEARNING_RATE,
    )
