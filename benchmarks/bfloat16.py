r"""What bfloat16 does to scoring on a real model: refusals, noise, and weights.

`python benchmarks/bfloat16.py [MODEL] [--rollouts 200] [--planted 20] [--seed 0] [--json FILE]`
prints Markdown tables. MODEL is a folder or a name: any causal language model. Without one, a model
of the shape of Qwen2.5-1.5B is made with random weights (`--quick`: the demo's model, and four
rollouts).

The model samples rollouts of small sums, a third of them right. Each is scored

- as the check of rows that are trees sees it, in four ways: float32, bfloat16, float32 under
  bfloat16 autocast, and bfloat16 with a LoRA adapter that changes the values. No refusal is right:
  the model's attention is causal and reads positions.
- after generation's cache, and after the cache of weights that were 2 % smaller.
- the first `--planted` of them with faults in what is fed as a tree, in float32 and in bfloat16.
  All are to be refused.
- in float32 and in bfloat16, with four answers each. Of both the posterior-weighted values follow:
  by how much they differ, and whether the steps of a rollout keep their order.
"""

import argparse
import copy
import json
import random
import tempfile
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from statistics import mean
from typing import Any
from unittest.mock import patch

import torch
from peft import LoraConfig, get_peft_model
from scipy.stats import spearmanr
from torch import nn
from transformers import AutoModelForCausalLM, AutoTokenizer, Qwen2Config

from barl_trl import posterior_weighted_values
from barl_trl.plausibility import Answer, Rollout, answer_log_likelihoods, forward
from barl_trl.plausibility.checks import faults
from barl_trl.plausibility.checks.faults import branch, shifted
from barl_trl.plausibility.checks.reference import Reference, reference
from barl_trl.plausibility.kv_cache import GenerationCache, GenerationRecorder
from barl_trl.plausibility.tree.rows import Row
from barl_trl.synthetic.search import TINY_MODEL_DIR

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
BATCH = 10
COMPLETION = 36
STEP = 12
MAX_TOKENS = 2048


def seen_until(row: Row, ends: dict[int, int]) -> Row:
    """Return a row some of whose places are seen up to others."""
    return row._replace(subtree_ends=[ends.get(i, e) for i, e in enumerate(row.subtree_ends)])


def leak_of_a_key(row: Row) -> Row:
    """Let all branches see the last token of the rollout."""
    return seen_until(row, {row.blocks[0].trunk_stop - 1: len(row.token_ids)})


def leak_of_an_answer(row: Row) -> Row:
    """Let the answers of the last state see those before them."""
    places = branch(row, row.blocks[0].trunk_stop)
    return seen_until(row, dict.fromkeys(places, places.stop))


def window(row: Row) -> Row:
    """Hide the first quarter of the rollout from all branches."""
    trunk = row.blocks[0].trunk_stop
    return seen_until(row, {i: min(row.subtree_ends[i], trunk) for i in range(trunk // 4)})


FAULTS: dict[str, Callable[[Row], Row]] = {
    "leak of a key": leak_of_a_key,
    "leak of an answer": leak_of_an_answer,
    "positions one too small": lambda row: shifted(row, -1),
    "positions one too large": lambda row: shifted(row, 1),
    "window over three quarters": window,
}


def sampled(
    model: Any, tokenizer: Any, number: int, seed: int
) -> list[tuple[Rollout, GenerationCache, int]]:
    """Return rollouts with their caches, and whether each holds the true answer."""
    rng, found = random.Random(seed), []
    torch.manual_seed(seed)
    tokenizer.padding_side = "left"
    while len(found) < number:
        sums = [(rng.randint(2, 60), rng.randint(2, 30)) for _ in range(BATCH)]
        texts = [f"What is {a} + {b}? Answer in one sentence." for a, b in sums]
        if tokenizer.chat_template:
            texts = [
                tokenizer.apply_chat_template(
                    [{"role": "user", "content": text}], add_generation_prompt=True, tokenize=False
                )
                for text in texts
            ]
        inputs = tokenizer(texts, return_tensors="pt", padding=True, add_special_tokens=False)
        inputs = inputs.to(DEVICE)
        with GenerationRecorder(model) as recorder, torch.no_grad():
            rows = model.generate(**inputs, max_new_tokens=COMPLETION, do_sample=True, top_k=0)
        cache = recorder.cache(
            [
                row[-int(n) :].tolist()
                for row, n in zip(
                    rows,
                    inputs.attention_mask.sum(1) + rows.shape[1] - inputs.input_ids.shape[1],
                    strict=True,
                )
            ]
        )
        assert cache is not None, "generation left no cache"
        for i, (a, b) in enumerate(sums):
            prompt = inputs.input_ids[i][inputs.attention_mask[i].bool()].tolist()
            completion = rows[i][inputs.input_ids.shape[1] :].tolist()
            while completion and completion[-1] == tokenizer.pad_token_id:
                completion.pop()
            ends = [*range(STEP, len(completion), STEP), len(completion)]
            states = [len(prompt), *(len(prompt) + end for end in ends if end)]
            wrong = rng.sample([n for n in range(4, 90) if n != a + b], 3)
            answers = [
                Answer(tokenizer.encode(f"{{{n}}}.", add_special_tokens=False), 1)
                for n in (a + b, *wrong)
            ]
            is_right = int(str(a + b) in tokenizer.decode(completion))
            rollout = Rollout([*prompt, *completion], states, answers)
            found.append((rollout, cache.select([i]), is_right))
    return found[:number]


def known(model: nn.Module, rollout: Rollout, elicitation: list[int]) -> Reference:
    """Return what the rows of a rollout are compared with."""
    return reference(model, rollout, elicitation, MAX_TOKENS)


def refusals(model: nn.Module, rollouts: list[Rollout], elicitation: list[int], autocast: bool):
    """Return why rollouts are refused."""
    context = torch.autocast(DEVICE, torch.bfloat16) if autocast else nullcontext()
    with torch.no_grad(), context:
        reasons = [
            faults.why_not_exact(model, known(model, rollout, elicitation), elicitation, MAX_TOKENS)
            for rollout in rollouts
        ]
    return [reason for reason in reasons if reason]


def planted(
    model: nn.Module, rollouts: list[Rollout], elicitation: list[int]
) -> dict[str, list[str]]:
    """Return for each fault why rollouts are refused whose trees are fed with it."""
    with torch.no_grad():
        compared = [known(model, rollout, elicitation) for rollout in rollouts]
        found = {}
        for name, fault in FAULTS.items():

            def token_logps(model, request, fault=fault):
                if request.layout != "plain":
                    request = replace(request, rows=[fault(row) for row in request.rows])
                return forward.token_logps(model, request)

            with patch.object(faults, "token_logps", token_logps):
                reasons = [
                    faults.why_not_exact(model, each, elicitation, MAX_TOKENS) for each in compared
                ]
            found[name] = [reason for reason in reasons if reason]
    return found


def stale(model: nn.Module, caches, elicitation: list[int]) -> list[str]:
    """Return why caches are refused."""
    with torch.no_grad():
        reasons = [
            faults.why_stale(
                model, known(model, rollout, elicitation), elicitation, MAX_TOKENS, cache
            )
            for rollout, cache, _ in caches
        ]
    return [reason for reason in reasons if reason]


def values(model: nn.Module, found, elicitation: list[int], beta: float):
    """Return the log-likelihoods and the posterior-weighted values of all rollouts."""
    scored = answer_log_likelihoods(
        model, [rollout for rollout, *_ in found], elicitation_ids=elicitation
    )
    outcomes = torch.tensor([float(is_right) for *_, is_right in found], device=DEVICE)
    weighted = posterior_weighted_values(
        scored.answer_logps,
        outcomes,
        beta=beta,
        state_mask=scored.state_mask,
        hypothesis_mask=scored.hypothesis_mask,
    )
    return scored, weighted


def random_model(folder: Path) -> str:
    """Save a model of the shape of Qwen2.5-1.5B; its words are those of the demo's model."""
    config = Qwen2Config(
        vocab_size=151936,
        hidden_size=1536,
        intermediate_size=8960,
        num_hidden_layers=28,
        num_attention_heads=12,
        num_key_value_heads=2,
        tie_word_embeddings=True,
    )
    torch.manual_seed(0)
    with torch.device(DEVICE):  # one CPU core is slow to draw 1.5 billion weights
        AutoModelForCausalLM.from_config(config, dtype=torch.float32).save_pretrained(folder)
    AutoTokenizer.from_pretrained(TINY_MODEL_DIR).save_pretrained(folder)
    return str(folder)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="What bfloat16 does to scoring on a real model.")
    parser.add_argument("model", nargs="?")
    parser.add_argument("--quick", action="store_true", help="the demo's model, four rollouts")
    parser.add_argument("--rollouts", type=int, default=200)
    parser.add_argument("--planted", type=int, default=20)
    parser.add_argument("--beta", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        name = args.model or (str(TINY_MODEL_DIR) if args.quick else random_model(Path(folder)))
        tokenizer = AutoTokenizer.from_pretrained(name)
        whole: Any = AutoModelForCausalLM.from_pretrained(name, dtype=torch.float32)
        half: Any = AutoModelForCausalLM.from_pretrained(name, dtype=torch.bfloat16)
    whole, half = whole.to(DEVICE).eval(), half.to(DEVICE).eval()
    tokenizer.pad_token = tokenizer.pad_token or tokenizer.eos_token
    elicitation = tokenizer.encode("\n\nThe final answer is \\boxed", add_special_tokens=False)
    found = sampled(half, tokenizer, 4 if args.quick else args.rollouts, args.seed)
    rollouts = [rollout for rollout, *_ in found]
    record: dict[str, object] = {"rollouts": len(found)}

    def note(name: str, reasons: list[str], number: int = len(found)) -> None:
        record[name] = reasons
        first = reasons[0] if reasons else ""
        print(f"| {name} | {len(reasons)} of {number} | {first} |", flush=True)

    print("| | refused | the first reason |\n|---|---|---|", flush=True)
    note("float32", refusals(whole, rollouts, elicitation, autocast=False))
    note("bfloat16", refusals(half, rollouts, elicitation, autocast=False))
    note("bfloat16, autocast", refusals(whole, rollouts, elicitation, autocast=True))
    note("bfloat16, generation's cache", stale(half, found, elicitation))
    few = rollouts[: args.planted]
    for dtype, model in (("float32", whole), ("bfloat16", half)):
        for name, reasons in planted(model, few, elicitation).items():
            note(f"{dtype}, {name} (to be refused)", reasons, len(few))
    first, exact = values(whole, found, elicitation, args.beta)
    second, rounded = values(half, found, elicitation, args.beta)
    adapter = copy.deepcopy(half)
    with torch.no_grad():
        for parameter in half.parameters():
            parameter.mul_(1.02)
    note("bfloat16, cache of other weights (to be refused)", stale(half, found, elicitation))
    adapted = get_peft_model(adapter, LoraConfig(r=8, task_type="CAUSAL_LM")).eval()
    for name, parameter in adapted.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(parameter, std=0.02)
    note("bfloat16, LoRA", refusals(adapted, rollouts, elicitation, autocast=False))

    exists = first.state_mask[..., None] & first.hypothesis_mask[:, None]
    noise = (first.answer_logps - second.answer_logps).abs()[exists].mean().item()
    spread = first.answer_logps[exists].std().item()
    difference = (exact - rounded).abs()
    steps = first.state_mask[:, 1:]
    correlation: Any = spearmanr
    orders = [
        correlation(exact[i][steps[i]], rounded[i][steps[i]]).statistic
        for i in range(len(found))
        if steps[i].sum() > 2 and exact[i][steps[i]].std() > 0 and rounded[i][steps[i]].std() > 0
    ]
    record |= {
        "logp_difference": noise,
        "logp_spread": spread,
        "value_difference": difference[steps].mean().item(),
        "value_spread_in_rollouts": mean(
            exact[i][steps[i]].std().item() for i in range(len(found)) if steps[i].sum() > 1
        ),
        "rank_correlation": mean(orders) if orders else float("nan"),
        "signs_that_differ": ((exact.sign() != rounded.sign()) & steps).sum().item()
        / steps.sum().item(),
    }
    print(f"\nbfloat16 against float32, {len(found)} rollouts, beta {args.beta}:\n")
    print("| | |\n|---|---|")
    for name in list(record)[-6:]:
        print(f"| {name.replace('_', ' ')} | {record[name]:.3g} |")
    if args.json:
        args.json.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
