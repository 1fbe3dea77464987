r"""What it costs to ask every state for every hypothesis's answer: this package beside its rivals.

`python benchmarks/scoring.py [--quick] [--small] [--large] [--grow] [--json FILE]` prints tables.
One model with random weights, one group of rollouts with one prompt; every way scores the same
answers at the same states, in one process run, in turns:

- `released`: the algorithm of the authors' code, written from its description: at each state one
  batch of all hypotheses and the truth once more, logits of all tokens. (Their off-by-ones are left
  out, so that the results are equal.)
- `re-encoding`: the same sequences, each once, batched, the head where it is needed.
- `cache rows`: a rollout once with a KV cache, then at each state one row per hypothesis.
- `default`: `answer_log_likelihoods` as it comes.
- `default, fused`: with the completions' own log-probabilities, which training may need anyway.

Beside them stand plain causal forwards: of the rollouts (`plain`), of as many tokens as `default`
feeds, with the head at as many places (`limit`), and with the head at the completions' places, too
(`limit, fused`). The column ": limit" compares each way with a limit of its own tokens: it has
`limit`'s seconds for each token, or those of `limit, fused`. Seconds are CPU seconds of this
process, on a GPU wall seconds, the least of the rounds; the slowest two score one rollout of the
group.
"""

import argparse
import json
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import date
from itertools import accumulate
from pathlib import Path

import torch
import transformers
from torch import Tensor
from torch.profiler import ProfilerActivity, profile
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    DynamicCache,
    PreTrainedModel,
    Qwen2Config,
    Qwen2ForCausalLM,
)

from barl_trl import Answer, Rollout, answer_log_likelihoods
from barl_trl.plausibility.budget import scoring_token_budget
from barl_trl.synthetic.search import TINY_MODEL_DIR

ELICITATION = list(range(3, 15))
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
SLOW = ("released", "re-encoding")


@dataclass(frozen=True)
class Shape:
    """A model and a group of rollouts."""

    hidden: int = 512
    layers: int = 8
    intermediate: int = 2048
    groups: int = 8
    vocabulary: int = 32000
    prompt: int = 512
    completion: int = 1024
    states: int = 9
    hypotheses: int = 6
    answer: int = 8
    common: int = 1
    rollouts: int = 5


def demo_shape() -> Shape:
    """The demo's model, with rollouts like its own."""
    config = AutoConfig.from_pretrained(TINY_MODEL_DIR)
    model = Shape(config.hidden_size, config.num_hidden_layers, vocabulary=config.vocab_size)
    sizes = {"prompt": 96, "completion": 64, "states": 4, "answer": 6, "common": 3, "rollouts": 8}
    return replace(model, **sizes)


DEMO = demo_shape()
SMALL = Shape(hidden=128, layers=2, intermediate=512, groups=2, vocabulary=2000)
LARGE = Shape(hidden=1536, layers=28, intermediate=8960, groups=2, vocabulary=151936)
"""Qwen2.5-1.5B's; its heads are 128 wide, the others' 64."""


def make_model(shape: Shape) -> PreTrainedModel:
    """A Qwen2 with random weights, or the demo's model."""
    if shape == DEMO:
        return AutoModelForCausalLM.from_pretrained(TINY_MODEL_DIR).eval().to(DEVICE)
    torch.manual_seed(0)
    config = Qwen2Config(
        vocab_size=shape.vocabulary,
        hidden_size=shape.hidden,
        intermediate_size=shape.intermediate,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.hidden // (128 if shape.hidden >= LARGE.hidden else 64),
        num_key_value_heads=shape.groups,
        max_position_embeddings=8192,
    )
    dtype = torch.bfloat16 if DEVICE == "cuda" else torch.float32
    with torch.device(DEVICE):  # one CPU core is slow to draw 1.5 billion weights
        return Qwen2ForCausalLM(config).eval().to(dtype)


def make_rollouts(shape: Shape) -> list[Rollout]:
    """Rollouts of one prompt; the answers share their first tokens, one of which is not scored."""
    draw = random.Random(0)

    def tokens(count: int) -> list[int]:
        return [draw.randrange(20, shape.vocabulary) for _ in range(count)]

    prompt = tokens(shape.prompt)
    first, own = [15, *tokens(shape.common - 1)], shape.answer - shape.common - 1
    answers = [Answer([*first, *tokens(own), 16], 1) for _ in range(shape.hypotheses)]
    ends = [n * shape.completion // (shape.states - 1) for n in range(shape.states)]
    states = [shape.prompt + end for end in ends]
    return [
        Rollout([*prompt, *tokens(shape.completion)], states, answers)
        for _ in range(shape.rollouts)
    ]


Logps = list[list[list[Tensor]]]
"""Rollout, state, hypothesis -> log-probabilities of the scored tokens."""


class Counter:
    """Counts the tokens that a model is fed, padding included."""

    def __init__(self, model: PreTrainedModel):
        self.tokens = 0
        model.register_forward_pre_hook(self._count, with_kwargs=True)

    def _count(self, _, args, kwargs):
        self.tokens += kwargs["input_ids"].numel()


def ids(rows: Sequence[Sequence[int]]) -> Tensor:
    """Token ids on the device."""
    return torch.tensor(rows, device=DEVICE)


def released(model: PreTrainedModel, rollouts: Sequence[Rollout]) -> Logps:
    """The algorithm of the authors' code."""
    found = []
    for rollout in rollouts:
        found.append([])
        for position in rollout.state_positions:
            context = [*rollout.token_ids[:position], *ELICITATION]
            answers = [rollout.answers[0], *rollout.answers]
            rows = [[*context, *answer.token_ids] for answer in answers]
            logits = model(input_ids=ids(rows)).logits
            row = []
            for n, answer in enumerate(answers):
                logps = []
                for k in range(answer.score_from, len(answer.token_ids)):
                    probabilities = logits[n, len(context) + k - 1].float().softmax(-1)
                    logps.append(probabilities[answer.token_ids[k]].log().item())
                row.append(torch.tensor(logps))
            found[-1].append(row[1:])
    return found


def cache_rows(model: PreTrainedModel, rollouts: Sequence[Rollout]) -> Logps:
    """A trunk with a cache; at each state a row per hypothesis."""
    found = []
    for rollout in rollouts:
        cache = DynamicCache()
        model(input_ids=ids([rollout.token_ids]), past_key_values=cache, logits_to_keep=1)
        states = []
        for position in reversed(rollout.state_positions):
            rows = [[*ELICITATION, *answer.token_ids[:-1]] for answer in rollout.answers]
            past = ((x.keys[:, :, :position], x.values[:, :, :position]) for x in cache.layers)
            branch = DynamicCache(list(past))
            branch.batch_repeat_interleave(len(rows))
            logits = model(
                input_ids=ids(rows),
                past_key_values=branch,
                logits_to_keep=len(rollout.answers[0].token_ids) - 1,
            ).logits
            labels = ids([answer.token_ids[1:] for answer in rollout.answers])
            states.append([*logits.float().log_softmax(-1).gather(-1, labels[..., None])[..., 0]])
        found.append(states[::-1])
    return found


def ours(**options) -> Callable[[PreTrainedModel, Sequence[Rollout]], Tensor]:
    """The package's own, with options."""

    def score(model: PreTrainedModel, rollouts: Sequence[Rollout]) -> Tensor:
        return answer_log_likelihoods(
            model, rollouts, elicitation_ids=ELICITATION, reduction="sum", **options
        ).answer_logps

    return score


def fused(model: PreTrainedModel, rollouts: Sequence[Rollout]) -> Tensor:
    """The package's own, the completions' own log-probabilities read, too."""
    return ours()(model, [replace(r, score_from=r.state_positions[0]) for r in rollouts])


WAYS: dict[str, Callable] = {
    "released": released,
    "re-encoding": ours(method="reencode"),
    "cache rows": cache_rows,
    "default": ours(),
    "default, fused": fused,
}


def plain(model: PreTrainedModel, size: int, rows: int, heads: int = 1) -> None:
    """Causal forwards of `rows` rows, as many at a time as the default budget holds."""
    at_once = max(1, scoring_token_budget(model) // size)
    for first in range(0, rows, at_once):
        batch = torch.full((min(at_once, rows - first), size), 17, device=DEVICE)
        model(input_ids=batch, use_cache=False, logits_to_keep=heads)


def clock() -> float:
    """CPU seconds, or wall seconds once the GPU is done."""
    if DEVICE == "cuda":
        torch.cuda.synchronize()
        return time.perf_counter()
    return time.process_time()


def peak_bytes(call: Callable[[], object]) -> int:
    """Peak of the memory that a call takes beside what is there."""
    if DEVICE == "cuda":
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        call()
        return torch.cuda.max_memory_allocated() - before
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        call()
    events = profiler.profiler.kineto_results.events()
    changes = sorted((e.start_ns(), e.nbytes()) for e in events if e.name() == "[memory]")
    return max(accumulate((change for _, change in changes), initial=0))


def totals(logps: Logps | Tensor) -> Tensor:
    """Log-likelihoods of the answers, summed over their tokens."""
    if isinstance(logps, Tensor):
        return logps.cpu()
    return torch.tensor([[[float(h.sum()) for h in state] for state in row] for row in logps])


@torch.no_grad()
def measure(shape: Shape, rounds: int) -> list[dict]:
    """Records of all ways at one shape."""
    model, rollouts = make_model(shape), make_rollouts(shape)
    ours()(model, rollouts)  # the check of the model, once
    counter = Counter(model)
    groups = {way: rollouts[:1] if way in SLOW else rollouts for way in WAYS}
    tokens, found = {}, {}
    for way, group in groups.items():
        counter.tokens = 0
        found[way] = totals(WAYS[way](model, group))
        tokens[way] = counter.tokens // len(group)
    for way, values in found.items():
        gap = (values - found["default"][: len(values)]).abs().max().item()
        if gap > (1e-3 if DEVICE == "cpu" else 1.0):
            raise AssertionError(f"{way} differs from default by {gap:.2g} nats")
    trunk, size, rows = shape.prompt + shape.completion, tokens["default"], len(rollouts)
    # of each state: where the elicitation ends, and the answers' tokens but their last
    heads = shape.states * (shape.common + shape.hypotheses * (shape.answer - 1 - shape.common))
    calls: dict[str, Callable[[], object]] = {
        "plain": lambda: plain(model, trunk, rows),
        "limit": lambda: plain(model, size, rows, min(size, heads)),
        "limit, fused": lambda: plain(model, size, rows, min(size, heads + shape.completion)),
    }
    for way in WAYS:
        calls[way] = lambda way=way: WAYS[way](model, groups[way])
    seconds = {name: float("inf") for name in calls}
    for n in range(rounds):
        for name, call in calls.items():
            if n and name in SLOW:
                continue
            started = clock()
            call()
            spent = (clock() - started) / len(groups.get(name, rollouts))
            seconds[name] = min(seconds[name], spent)
    peaks = {name: peak_bytes(call) for name, call in calls.items()}
    tokens |= {"plain": trunk, "limit": size, "limit, fused": size}
    per_token = [seconds[name] / size for name in ("limit", "limit, fused")]
    return [
        {
            "way": name,
            "seconds": seconds[name],
            "tokens": tokens[name],
            "peak_mb": round(peaks[name] / 2**20, 1),
            "of_plain": seconds[name] / seconds["plain"],
            "of_limit": seconds[name] / tokens[name] / per_token["fused" in name],
            "of_default": seconds[name] / seconds["default"],
            **asdict(shape),
        }
        for name in calls
    ]


def table(records: Sequence[dict]) -> str:
    """Records as Markdown."""
    columns = ("way", "seconds", "tokens", "peak_mb", "of_plain", "of_limit", "of_default")
    titles = ("", "s per rollout", "tokens", "peak, MB", ": plain", ": limit", ": default")
    lines = ["| " + " | ".join(titles) + " |", "|---" * len(titles) + "|"]
    for record in records:
        cells = [record[name] for name in columns]
        shown = [f"{cell:.3g}" if isinstance(cell, float) else str(cell) for cell in cells]
        lines.append("| " + " | ".join(shown) + " |")
    return "\n".join(lines)


GROWTH = {
    "completion": (256, 512, 1024, 2048, 4096),
    "states": (3, 5, 9, 17, 33),
    "hypotheses": (2, 3, 6, 11, 17),
}


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="the demo's model, one round")
    parser.add_argument("--small", action="store_true", help="two layers of width 128")
    parser.add_argument("--grow", action="store_true", help="cost against size, of a small model")
    parser.add_argument("--large", action="store_true", help="the shape of Qwen2.5-1.5B, for a GPU")
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--json", metavar="FILE", help="where to write one record per point")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    is_small = options.small or options.grow
    shape = SMALL if is_small else LARGE if options.large else DEMO if options.quick else Shape()
    points: list[dict[str, int]] = [{}]
    if options.grow:
        points = [{field: value} for field, values in GROWTH.items() for value in values]
    rounds = 1 if options.quick else options.rounds
    where = (
        torch.cuda.get_device_name() if DEVICE == "cuda" else f"CPU, {options.threads} thread(s)"
    )
    versions = f"torch {torch.__version__}, transformers {transformers.__version__}"
    print(f"{date.today()}, {where}, {versions}. {shape}\n")
    about = {"device": where, "versions": versions, "date": str(date.today())}
    records = []
    for point in points:
        measured = measure(replace(shape, **point), rounds)
        for field, value in point.items():
            print(f"{field} = {value}\n")
            about["grows"] = field
        print(table(measured) + "\n", flush=True)
        records += [about | record for record in measured]
        if options.json:
            Path(options.json).write_text(json.dumps(records, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
