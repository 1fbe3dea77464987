"""What the makers of the two small models share: tokenizer, architecture, training, saving.

The weights of both are reproduced from fixed seeds, on one thread.
"""

import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import torch
import torch.nn.functional as F
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

IGNORED = -100  # label of a token without loss


class Choices(NamedTuple):
    """Tokens that are drawn from a known distribution, which is learned in place of the draw."""

    rows: torch.Tensor
    """Row of each in the batch, `[N]`."""
    positions: torch.Tensor
    """Position of each in its row, `[N]`."""
    probabilities: torch.Tensor
    """Probability of each token, `[N, V]`, or of each of `tokens`, `[N, T]`."""
    tokens: torch.Tensor | None = None
    """The tokens that are compared, `[T]`: the probability of any other token is left alone,
    because another one follows in the row. None: all tokens."""


class Batch(NamedTuple):
    """Sequences padded on the right, `[B, L]`; every token of the vocabulary may weigh its own."""

    input_ids: torch.Tensor
    labels: torch.Tensor
    token_weights: torch.Tensor | None = None
    choices: Sequence[Choices] = ()


def byte_tokenizer() -> Tokenizer:
    """Bytes as tokens, so that any text can be encoded."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    core = Tokenizer(models.BPE(vocab={symbol: i for i, symbol in enumerate(alphabet)}, merges=[]))
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    core.decoder = decoders.ByteLevel()
    return core


def random_qwen2(
    tokenizer: PreTrainedTokenizerFast, *, seed: int, hidden_size: int, layers: int, positions: int
) -> Qwen2ForCausalLM:
    """A randomly initialised Qwen2 of four heads, in float32."""
    config = Qwen2Config(
        vocab_size=len(tokenizer),
        hidden_size=hidden_size,
        intermediate_size=3 * hidden_size,
        num_hidden_layers=layers,
        num_attention_heads=4,
        num_key_value_heads=4,
        max_position_embeddings=positions,
        tie_word_embeddings=True,
        initializer_range=0.06,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    torch.manual_seed(seed)
    model = Qwen2ForCausalLM(config)
    model.generation_config.do_sample = True
    model.generation_config.top_k = 0  # sample from all tokens; the default is the 50 most likely
    return model


def train(
    model: Qwen2ForCausalLM,
    batches: Iterable[Batch],
    *,
    remark: Callable[[torch.Tensor, torch.Tensor], str],
    steps: int,
    warmup_steps: int,
    peak_learning_rate: float,
) -> None:
    """Trains on the next token, with a linear warm-up and then a cosine to zero.

    Args:
        model (`Qwen2ForCausalLM`): what is trained.
        batches (`Iterable[Batch]`): `steps` of them.
        remark (`Callable`): what is printed of the logits and the labels, beside the loss.
        steps (`int`): number of optimizer steps.
        warmup_steps (`int`): number of them in which the learning rate rises.
        peak_learning_rate (`float`): what it rises to.
    """

    def learning_rate_factor(step: int) -> float:
        if step < warmup_steps:
            return (step + 1) / warmup_steps
        return 0.5 * (1 + math.cos(math.pi * (step - warmup_steps) / (steps - warmup_steps)))

    optimizer = torch.optim.AdamW(
        model.parameters(), lr=peak_learning_rate, betas=(0.9, 0.98), weight_decay=0.01
    )
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, learning_rate_factor)
    started = time.monotonic()
    for step, (ids, labels, token_weights, choices) in enumerate(batches):
        # Padding is on the right and has no loss: under the causal mask it needs no other mask.
        logits, labels = model(input_ids=ids, use_cache=False).logits[:, :-1], labels[:, 1:]
        loss = F.cross_entropy(
            logits.flatten(0, 1), labels.flatten(), token_weights, ignore_index=IGNORED
        )
        for rows, positions, probabilities, tokens in choices:
            chosen_from = logits[rows, positions - 1]
            chosen_from = chosen_from if tokens is None else chosen_from[:, tokens]
            loss = loss + F.cross_entropy(chosen_from, probabilities)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        scheduler.step()
        optimizer.zero_grad()
        if step % 100 == 0 or step == steps - 1:
            elapsed, said = time.monotonic() - started, remark(logits, labels)
            print(f"step {step} {elapsed:.0f} s: loss {loss.item():.4f}{said}", flush=True)


def make(
    output: Path,
    tokenizer: Callable[[], PreTrainedTokenizerFast],
    model: Callable[[PreTrainedTokenizerFast], Qwen2ForCausalLM],
    batches: Callable[[PreTrainedTokenizerFast], Iterator[Batch]],
    remark: Callable[[PreTrainedTokenizerFast, torch.Tensor, torch.Tensor], str] = lambda *_: "",
    **training,
) -> None:
    """Makes a tokenizer and a model, trains the model and saves both in a folder."""
    torch.set_num_threads(1)  # the order of the sums, and with it the weights, depends on it
    made_tokenizer = tokenizer()
    made_model = model(made_tokenizer)
    print(f"{made_model.num_parameters()} parameters, {len(made_tokenizer)} tokens")
    said = partial(remark, made_tokenizer)
    train(made_model, batches(made_tokenizer), remark=said, **training)
    made_tokenizer.save_pretrained(output)
    made_model.save_pretrained(output)
