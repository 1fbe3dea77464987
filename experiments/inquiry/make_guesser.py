"""Makes the model of the game of guessing in text: `python -m experiments.inquiry.make_guesser`.

A small Qwen2 is trained, on one core, on the games of a player that never guesses a number twice.
In half of the games it guesses any other number, in the others any that the replies leave possible.
"""

import argparse
import random
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scripts.small_models import IGNORED, Batch, Choices, make, random_qwen2
from tokenizers import AddedToken

from .environments import model_dir
from .guessing import COUNT, HIGHER, LOWER, MOST_TURNS, PROMPT, guessing
from .make_models import BATCH_SIZE, PEAK_LEARNING_RATE, SEED, WARMUP_STEPS, chat_tokenizer

STEPS = 1000
REPLY = "\n<|im_start|>user\n{}<|im_end|>\n<|im_start|>assistant\n"
"""What stands between two turns, behind the token that ends the first."""


def make_tokenizer() -> Any:
    """Return a tokenizer of bytes, with added tokens for the game's texts."""
    tokenizer = chat_tokenizer()
    before, _, behind = prompt_text(tokenizer).partition(PROMPT)
    pieces = [part for text in (before, behind) for part in text.split("<|im_end|>") if part]
    pieces += [PROMPT, "\n<|im_start|>user\n", HIGHER, LOWER, "[", "]"]
    pieces += map(str, range(1, COUNT + 1))
    added = [AddedToken(piece, normalized=False, special=False) for piece in dict.fromkeys(pieces)]
    tokenizer.add_tokens(added)
    return tokenizer


def prompt_text(tokenizer: Any) -> str:
    """Return the text of the prompt."""
    messages = [{"role": "user", "content": PROMPT}]
    return tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)


def batches(tokenizer: Any) -> Iterator[Batch]:
    """Yield games of the player; its guesses are learned from the numbers they were drawn from."""
    rng, inquiry = random.Random(SEED), guessing()
    opening, end = tokenizer.encode("["), tokenizer.encode("]<|im_end|>")
    numbers = [tokenizer.encode(text)[0] for text in inquiry.questions]
    replies = {text: tokenizer.encode(REPLY.format(text)) for text in (HIGHER, LOWER)}
    begun = tokenizer.encode(prompt_text(tokenizer))
    for _ in range(STEPS):
        games, places, shares = [], [], []
        for game in range(BATCH_SIZE):
            ids, labels = [*begun], [IGNORED] * len(begun)
            secret, is_careful = rng.choice(inquiry.hypotheses), rng.random() < 0.5
            possible, new = np.ones(COUNT), np.ones(COUNT)
            for _ in range(MOST_TURNS):
                weights = possible if is_careful else new
                guess = rng.choices(inquiry.questions, weights.tolist())[0]
                place, reply = inquiry.places[guess], inquiry.reply(guess, secret)
                places.append((game, len(ids) + len(opening)))
                shares.append(weights / weights.sum())
                own = [*opening, numbers[place], *end]
                ids += own
                labels += [*opening, IGNORED, *end]
                if reply not in replies:
                    break
                possible = possible * np.exp(inquiry.log_likelihoods(guess, reply))
                new[place] = 0.0
                ids += replies[reply]
                labels += [IGNORED] * len(replies[reply])
            games.append((torch.tensor(ids), torch.tensor(labels)))
        pad = partial(torch.nn.utils.rnn.pad_sequence, batch_first=True)
        probabilities = torch.zeros(len(places), len(tokenizer))
        probabilities[:, numbers] = torch.from_numpy(np.stack(shares)).float()
        lines, positions = torch.tensor(places).unbind(dim=1)
        yield Batch(
            pad([ids for ids, _ in games], padding_value=tokenizer.pad_token_id),
            pad([labels for _, labels in games], padding_value=IGNORED),
            choices=[Choices(lines, positions, probabilities)],
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, help="folder to write")
    size = {"hidden_size": 64, "layers": 3, "positions": 4096}
    make(
        parser.parse_args().output or model_dir("guess"),
        make_tokenizer,
        partial(random_qwen2, seed=SEED, **size),
        batches,
        steps=STEPS,
        warmup_steps=WARMUP_STEPS,
        peak_learning_rate=PEAK_LEARNING_RATE,
    )
