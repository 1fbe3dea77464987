"""Makes the demo's model, `src/barl_trl/assets/tiny-search`: `make tiny-model`, ten minutes.

A Qwen2 of 0.9 million parameters is trained, on one core, on chains of thought of a *bad explorer*
of the search task (`barl_trl.synthetic.search`). Its sums and its format are right, but it half
forgets what it has tried, so that it repeats itself, and it gives up after a few failures and
guesses. What is left for reinforcement learning to teach is how to explore: the model starts at
about half of the accuracy that its own arithmetic allows.
"""

import argparse
import random
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import torch
from small_models import IGNORED, Batch, byte_tokenizer, make, random_qwen2
from tokenizers import AddedToken
from transformers import PreTrainedTokenizerFast, Qwen2ForCausalLM

from barl_trl.plausibility.elicitation import DEFAULT_ELICITATION as ELICITATION
from barl_trl.synthetic.search import (
    TINY_MODEL_DIR,
    SearchProblem,
    problems,
)

SEED = 0
BATCH_SIZE, BATCHES_PER_BUCKET = 32, 32
PEAK_LEARNING_RATE = 2e-3
WARMUP_STEPS = 100
NUMBERS = 100  # the largest sum of the task is 69
ASKED_SHARE = 0.25  # rows that stop anywhere in a chain, or behind it, to ask for the answer
PIECES = ["Which of ", ", ", " satisfies ", "x + ", "?\n", "Try ", ": ", "*", " + ", " = "]
PIECES += [", no.", ", yes.", ELICITATION.lstrip("\n"), "{", "}."]
TRY = re.compile(r"^Try (\d{1,18}): .* (?:yes|no)\.$", re.MULTILINE)


def parse_chain(completion: str) -> tuple[list[int], str | None]:
    r"""Return the numbers that a completion tries, with repetition, and the answer that ends it.

    The answer is None unless it stands at the very end, in the words of the elicitation.

    >>> parse_chain("Try 8: 3*8 + 7 = 31, no.\nTry 8: 3*8" + ELICITATION + "{10}.")
    ([8], '10')
    """
    # The newline in front of an answer without any tries may be the prompt's last.
    chain, asked, answer = ("\n" + completion).rpartition(ELICITATION + "{")
    answered = bool(asked) and re.fullmatch(r"\d+\}\.", answer) is not None
    tried = [int(number) for number in TRY.findall(chain if answered else completion)]
    return tried, answer.removesuffix("}.") if answered else None


@dataclass(frozen=True)
class Explorer:
    """Writes chains of thought with right sums, with its own habits in choosing what to try.

    Attributes:
        tried_weight (`float`): weight of a candidate that was tried before, against 1 of the
            others, whenever it picks one, to try or to guess.
        patience (`int`): number of failures at which its probability of giving up jumps.
        give_up_early (`float`): probability of giving up after a failure, before the jump.
        give_up_late (`float`): the same, from the jump on.
        luck (`float`): probability of picking the solution whatever the weights.
    """

    tried_weight: float
    patience: int
    give_up_early: float
    give_up_late: float
    luck: float = 0.0

    def pick(self, problem: SearchProblem, tried: list[int], rng: random.Random) -> str:
        """A random candidate."""
        if rng.random() < self.luck:
            return problem.solution
        weights = [self.tried_weight if x in tried else 1.0 for x in problem.candidates]
        return str(rng.choices(problem.candidates, weights)[0])

    def explore(self, problem: SearchProblem, rng: random.Random) -> str:
        """A chain of thought with its answer: the hit, or a guess after giving up."""
        tried: list[int] = []
        while True:
            answer = self.pick(problem, tried, rng)
            tried.append(int(answer))
            if answer == problem.solution:
                break
            patient = len(tried) < self.patience
            if rng.random() < (self.give_up_early if patient else self.give_up_late):
                answer = self.pick(problem, tried, rng)
                break
        return "\n".join(map(problem.try_line, tried)) + ELICITATION + f"{{{answer}}}."

    def answer_after(self, problem: SearchProblem, chain: str, rng: random.Random) -> str:
        """What it would answer after a chain that was cut anywhere: only whole lines count."""
        tried, _ = parse_chain(chain)
        if int(problem.solution) in tried:
            return problem.solution
        return self.pick(problem, tried, rng)


# Its most likely chain tries three candidates of seven and then guesses, which solves about half.
# Were its probability of giving up one constant below 1/2, greedy decoding would never give up.
BAD_EXPLORER = Explorer(tried_weight=0.6, patience=3, give_up_early=0.05, give_up_late=0.6)
# Drills come first. This explorer often has luck, so that there is as much yes as no to learn.
LUCKY_EXPLORER = Explorer(0.1, patience=8, give_up_early=0.0, give_up_late=1.0, luck=0.4)
# This one remembers well and hardly gives up: its chains are worth attending to what was tried.
PATIENT_EXPLORER = Explorer(0.1, patience=8, give_up_early=0.0, give_up_late=1.0)


class Phase(NamedTuple):
    """A stretch of the training."""

    explorer: Explorer
    steps: int
    verdict_weight: float  # of the yes and no in the loss, against 1 of the other tokens


PHASES = (
    Phase(LUCKY_EXPLORER, 1500, 10.0),
    Phase(PATIENT_EXPLORER, 2000, 2.0),
    Phase(BAD_EXPLORER, 1500, 1.0),
)
STEPS = sum(phase.steps for phase in PHASES)


def make_tokenizer() -> PreTrainedTokenizerFast:
    """A tokenizer of bytes, with added tokens for the task's pieces.

    Numbers are one token each: over digits, the sums take far longer to learn. Added tokens are cut
    out before a tokenizer splits the rest, so the ids are the same under the splitting rules that
    `AutoTokenizer` puts into the tokenizer of every Qwen2 checkpoint.
    """
    core = byte_tokenizer()
    pieces = [*PIECES, *map(str, range(NUMBERS))]
    core.add_tokens([AddedToken(piece, normalized=False) for piece in pieces])
    return PreTrainedTokenizerFast(
        tokenizer_object=core,
        pad_token="<|endoftext|>",
        eos_token="<|im_end|>",
        padding_side="left",
        clean_up_tokenization_spaces=False,
        model_max_length=2048,
    )


def make_model(tokenizer: PreTrainedTokenizerFast) -> Qwen2ForCausalLM:
    """A randomly initialised Qwen2 with about a million parameters."""
    model = random_qwen2(tokenizer, seed=SEED, hidden_size=128, layers=4, positions=2048)
    for layer in model.model.layers:
        # a token attends to its like from the start: the yes and no compare a sum with the target
        layer.self_attn.k_proj.weight.data.copy_(layer.self_attn.q_proj.weight.data)
    return model


def training_rows(
    tokenizer: PreTrainedTokenizerFast, explorer: Explorer, seed: int
) -> Iterator[tuple[list[int], int]]:
    """Endless rows: token ids, and the index of the first one that is learnt."""
    rng = random.Random(seed)
    for problem in problems(seed):
        chain = explorer.explore(problem, rng)
        prompt_ids = tokenizer.encode(problem.prompt)
        chain_ids = tokenizer.encode(chain)
        if rng.random() >= ASKED_SHARE:
            yield prompt_ids + chain_ids + [tokenizer.eos_token_id], len(prompt_ids)
            continue
        state, (_, answer) = chain, parse_chain(chain)
        if rng.random() < 0.8:
            cut_ids = chain_ids[: rng.randrange(len(chain_ids))]
            state = tokenizer.decode(cut_ids).partition(ELICITATION.lstrip("\n"))[0].rstrip("\n")
            answer = explorer.answer_after(problem, state, rng)
        asked_ids = prompt_ids + tokenizer.encode(state + ELICITATION)
        answer_ids = tokenizer.encode(f"{{{answer}}}.")
        yield asked_ids + answer_ids + [tokenizer.eos_token_id], len(asked_ids)


def padded(
    rows: Iterator[tuple[list[int], int]], pad_id: int, seed: int
) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Endless `(input_ids, labels)`, each `[BATCH_SIZE, L]`, right-padded, of like lengths."""
    rng = random.Random(seed)
    while True:
        bucket = sorted(islice(rows, BATCH_SIZE * BATCHES_PER_BUCKET), key=lambda row: len(row[0]))
        starts = list(range(0, len(bucket), BATCH_SIZE))
        rng.shuffle(starts)
        for start in starts:
            batch = bucket[start : start + BATCH_SIZE]
            length = len(batch[-1][0])
            ids = torch.full((BATCH_SIZE, length), pad_id)
            labels = torch.full((BATCH_SIZE, length), IGNORED)
            for row, (tokens, learnt_from) in enumerate(batch):
                ids[row, : len(tokens)] = torch.tensor(tokens)
                labels[row, learnt_from : len(tokens)] = ids[row, learnt_from : len(tokens)]
            yield ids, labels


def batches(tokenizer: PreTrainedTokenizerFast) -> Iterator[Batch]:
    """The explorers' chains: first drills, then the bad explorer's habits."""
    for number, phase in enumerate(PHASES, start=1):
        rows = training_rows(tokenizer, phase.explorer, SEED + number)
        token_weights = torch.ones(len(tokenizer))
        token_weights[verdict_ids(tokenizer)] = phase.verdict_weight
        stream = padded(rows, tokenizer.pad_token_id, SEED + number)
        for ids, labels in islice(stream, phase.steps):
            yield Batch(ids, labels, token_weights)


def verdict_ids(tokenizer: PreTrainedTokenizerFast) -> list[int]:
    """The tokens that say whether a candidate is the solution."""
    return tokenizer.convert_tokens_to_ids([", yes.", ", no."])


def verdicts_right(
    tokenizer: PreTrainedTokenizerFast, logits: torch.Tensor, labels: torch.Tensor
) -> str:
    """The share of verdicts that would be right, in words."""
    is_verdict = torch.isin(labels, torch.tensor(verdict_ids(tokenizer)))
    right = (logits.argmax(-1) == labels)[is_verdict].float().mean().item()
    return f", yes and no right {right:.3f}"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=TINY_MODEL_DIR, help="folder to write")
    make(
        parser.parse_args().output,
        make_tokenizer,
        make_model,
        batches,
        steps=STEPS,
        warmup_steps=WARMUP_STEPS,
        peak_learning_rate=PEAK_LEARNING_RATE,
        remark=verdicts_right,
    )
