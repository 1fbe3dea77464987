"""The small model: its task, tokenizer and warm start, and how sharp and calibrated it believes."""

import random
from collections.abc import Iterator, Sequence
from functools import cache, partial, reduce
from pathlib import Path
from typing import Any

import torch
from scripts.small_models import IGNORED, Batch, byte_tokenizer, make, random_qwen2
from tokenizers import AddedToken
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedTokenizerFast

from ..sampling import sample
from ..tools import write_json

DIGITS, SIZE = 5, 10
TABLE = [[*range(SIZE)]] + [random.Random(n).sample(range(SIZE), SIZE) for n in range(1, SIZE)]
"""Digit, number -> the next number. 0 changes nothing; each other digit is a permutation."""
ZEROS, SLIP = 0.35, 0.08
"""Share of digits that are 0; share of lines that are wrong by one in the warm start."""
AGAIN, ANSWER, ELICITATION = "again\n", "\\boxed", "So \\boxed"
MOST_TOKENS = 2 * 2 * DIGITS + 6
SEED, BATCH_SIZE = 0, 64


def draw(rng: random.Random) -> list[int]:
    """Return the digits of a prompt."""
    return [0 if rng.random() < ZEROS else rng.randint(1, SIZE - 1) for _ in range(DIGITS)]


def prompt_of(digits: Sequence[int]) -> str:
    """Return the prompt that asks for the number behind a chain of digits, which begins at 0."""
    return " ".join(map(str, digits)) + "=\n"


def end_of(digits: Sequence[int]) -> int:
    """Return the number behind a chain."""
    return reduce(lambda number, digit: TABLE[digit][number], digits, 0)


def rows(count: int, *, seed: int) -> list[dict[str, str]]:
    """Return rows `{"prompt", "solution"}` of a data set."""
    rng = random.Random(seed)
    drawn = [draw(rng) for _ in range(count)]
    return [{"prompt": prompt_of(digits), "solution": str(end_of(digits))} for digits in drawn]


def make_tokenizer() -> Any:
    """Return a tokenizer of bytes, with a token for each text of several letters."""
    tokenizer: Any = PreTrainedTokenizerFast(
        tokenizer_object=byte_tokenizer(),
        pad_token="<|endoftext|>",
        eos_token="<|im_end|>",
        padding_side="left",
        clean_up_tokenization_spaces=False,
        model_max_length=256,
    )
    pieces = ["=\n", AGAIN, ANSWER, ELICITATION, "}."]
    tokenizer.add_tokens([AddedToken(piece, normalized=False, special=False) for piece in pieces])
    return tokenizer


def lines_with_slips(digits: Sequence[int], rng: random.Random) -> list[int]:
    """Return the numbers behind each digit; what follows a slip goes on from it."""
    number, lines = 0, []
    for digit in digits:
        slip = rng.choice((-1, 1)) if rng.random() < SLIP else 0
        number = (TABLE[digit][number] + slip) % SIZE
        lines.append(number)
    return lines


def training_row(rng: random.Random) -> list[tuple[str, bool]]:
    """Return texts, each with whether it is learned: a response, or a part and the true answer."""
    digits = draw(rng)
    passes = [lines_with_slips(digits, rng) for _ in range(1 + (rng.random() < 0.5))]
    texts = [f"{line}\n" for line in passes[0]]
    if len(passes) == 2:
        texts += [AGAIN, *(f"{line}\n" for line in passes[1])]
    texts.append(f"{ANSWER}{{{rng.choice(passes)[-1]}}}")
    prompt = (prompt_of(digits), False)
    if rng.random() < 0.5:
        return [prompt, *((text, True) for text in texts), ("<|im_end|>", True)]
    # asked after none, some or all of it
    shown = [(text, False) for text in texts[: rng.randint(0, len(texts))]]
    return [prompt, *shown, (ELICITATION + "{", False), (f"{end_of(digits)}}}.", True)]


def batches(tokenizer: Any, steps: int) -> Iterator[Batch]:
    """Yield the warm start's rows."""
    rng, encode = random.Random(SEED), cache(tokenizer.encode)
    for _ in range(steps):
        pairs = [training_row(rng) for _ in range(BATCH_SIZE)]
        ids = [[token for text, _ in row for token in encode(text)] for row in pairs]
        learned = [[own for text, own in row for _ in encode(text)] for row in pairs]
        input_ids = torch.full((BATCH_SIZE, max(map(len, ids))), tokenizer.pad_token_id)
        labels = torch.full_like(input_ids, IGNORED)
        for n, (row, own) in enumerate(zip(ids, learned, strict=True)):
            input_ids[n, : len(row)] = torch.tensor(row)
            labels[n, : len(row)] = input_ids[n, : len(row)].where(torch.tensor(own), IGNORED)
        yield Batch(input_ids, labels)


def warm_up(path: Path, folder: Path, steps: int) -> None:
    """Train the model from random weights, save it in a folder, and write how it believes."""
    make(
        folder,
        make_tokenizer,
        partial(random_qwen2, seed=SEED, hidden_size=64, layers=2, positions=256),
        partial(batches, steps=steps),
        steps=steps,
        warmup_steps=50,
        peak_learning_rate=3e-3,
    )
    write_json(path, measured(folder))


@torch.no_grad()
def measured(folder: Path, count: int = 1024) -> dict[str, Any]:
    """Sample responses; return the mean belief in the truth by line, and its calibration.

    `calibration` has, for each fifth of the values of the largest belief at all lines of the first
    pass, its mean and how often it is right.
    """
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model: Any = AutoModelForCausalLM.from_pretrained(folder)
    drawn = rows(count, seed=SEED + 1)
    prompts = tokenizer([row["prompt"] for row in drawn])["input_ids"]
    torch.manual_seed(SEED)
    written = sample(
        model,
        prompts,
        max_new_tokens=2 * DIGITS,
        end_ids=[tokenizer.eos_token_id],
        generator=torch.default_generator,
    )
    numbers = tokenizer.convert_tokens_to_ids([*map(str, range(SIZE))])
    asked = tokenizer.encode(ELICITATION + "{")
    truths = torch.tensor([int(row["solution"]) for row in drawn])
    by_line, tops = [], []
    for line in range(DIGITS + 1):
        inputs = [[*p, *w[: 2 * line], *asked] for p, w in zip(prompts, written, strict=True)]
        is_whole = torch.tensor([len(w) == 2 * DIGITS for w in written])
        kept = [row for row, whole in zip(inputs, is_whole, strict=True) if whole]
        belief = model(torch.tensor(kept)).logits[:, -1, numbers].softmax(dim=-1)
        truth = truths[is_whole]
        by_line.append(belief[torch.arange(len(truth)), truth].mean().item())
        largest, answer = belief.max(dim=-1)
        tops += [*zip(largest.tolist(), (answer == truth).tolist(), strict=True)]
    tops.sort()
    fifths = [tops[n * len(tops) // 5 : (n + 1) * len(tops) // 5] for n in range(5)]
    means = [[sum(column) / len(of) for column in zip(*of, strict=True)] for of in fifths]
    return {"belief_by_line": by_line, "calibration": means}
