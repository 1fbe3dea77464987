"""The didactic example as a data set, rewards and a tiny language model.

A prompt is one token, "a", "b" or "c"; each token of a completion is an action, "0", "1" or "2".
"""

from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate
from statistics import fmean
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from torch import nn
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast

from barl_trl.synthetic.triplets import NUM_ACTIONS, NUM_STEPS

from ..sampling import sample

_PROMPTS = "abc"
_VOCABULARY = "012" + _PROMPTS + "."
_NEVER = -1e4
"""Logit of a token that is no action: its probability is 0."""


def rows(prompts: Sequence[int], triplets: Sequence[Sequence[int]]) -> list[dict[str, Any]]:
    """Return rows of a data set: the prompt, the triplet that pays, and those that might."""
    listed = ["".join(map(str, triplet)) for triplet in triplets]
    return [{"prompt": _PROMPTS[n], "solution": str(n) * 3, "triplets": listed} for n in prompts]


def solved(completions: list[str], solution: list[str], **columns: Any) -> list[float]:
    """Return 1 for a completion with the triplet that pays, else 0: a reward function."""
    return [float(triplet in text) for text, triplet in zip(completions, solution, strict=True)]


def hypothesis_rewards(
    hypotheses: list[list[str]], steps: list[list[str]], **columns: Any
) -> list[Float[np.ndarray, "step hypothesis"]]:
    """Return 1 where a step completes a hypothesis's triplet for the first time, else 0.

    Args:
        hypotheses: Triplets of each rollout, the truth first.
        steps: Actions of each step of each rollout.
        **columns: Not used.
    """
    output = []
    for triplets, texts in zip(hypotheses, steps, strict=True):
        text, ends = "".join(texts), [*accumulate(map(len, texts))]
        rewards = np.zeros((len(texts), len(triplets)))
        for n, triplet in enumerate(triplets):
            place = text.find(triplet)
            if place >= 0:
                rewards[bisect_left(ends, place + len(triplet)), n] = 1.0
        output.append(rewards)
    return output


def make_tokenizer() -> PreTrainedTokenizerFast:
    """Make a tokenizer with a token for each action and each prompt; "." is padding and EOS."""
    core = Tokenizer(models.WordLevel({c: n for n, c in enumerate(_VOCABULARY)}, unk_token="."))
    core.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    core.decoder = decoders.Fuse()
    return PreTrainedTokenizerFast(
        tokenizer_object=core, pad_token=".", eos_token=".", padding_side="left"
    )


def make_model(seed: int) -> GPT2LMHeadModel:
    """Make a policy of one layer that takes each action with probability 1/3.

    All prompts start with one embedding: what is learned for two of them then holds for a prompt
    that was never trained. One of its own, at random, would be noise to the policy.
    """
    torch.manual_seed(seed)
    end = _VOCABULARY.index(".")
    config = GPT2Config(
        vocab_size=len(_VOCABULARY),
        n_positions=NUM_STEPS + 1,
        n_embd=32,
        n_layer=1,
        n_head=2,
        activation_function="relu",
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
        tie_word_embeddings=False,
        bos_token_id=None,
        eos_token_id=end,
        pad_token_id=end,
    )
    model = GPT2LMHeadModel(config)
    for embeddings in (model.transformer.wte, model.transformer.wpe):
        nn.init.normal_(embeddings.weight)
    model.lm_head = nn.Linear(config.n_embd, len(_VOCABULARY))
    first = _VOCABULARY.index(_PROMPTS[0])
    with torch.no_grad():
        model.transformer.wte.weight[first : first + len(_PROMPTS)] = model.transformer.wte.weight[
            first
        ].clone()
        model.lm_head.weight.zero_()
        model.lm_head.bias.fill_(_NEVER)[:NUM_ACTIONS] = 0.0
    return model


def accuracies(
    model: nn.Module, tokenizer: PreTrainedTokenizerFast, completions: int
) -> list[float]:
    """Sample completions of each prompt, and return the share that is solved, by prompt."""
    shares = []
    for row in rows(range(len(_PROMPTS)), ()):
        ids = sample(
            model,
            [tokenizer(row["prompt"])["input_ids"]] * completions,
            max_new_tokens=NUM_STEPS,
            end_ids=[],
            generator=torch.default_generator,
        )
        texts = tokenizer.batch_decode(ids)
        shares.append(fmean(solved(texts, [row["solution"]] * completions)))
    return shares
