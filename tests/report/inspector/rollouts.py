"""Small records with real posteriors: random likelihoods through `posterior.py`."""

import hashlib
import random

import torch

from barl_trl.posterior import posterior, values_under
from barl_trl.report.rollout_records import file_name, write_records

METADATA = {
    "reward_names": ["accuracy"],
    "credit": "barl",
    "consistency_beta": 1.0,
    "model": "tiny",
    "answer_likelihood": "mean",
}
WORDS = ("Try ", "7", " = ", "no", ".\n", "x", " so ")
STEP_TOKENS = 3


def make_record(seed, *, step=0, group=0, rollout=0, outcome=1.0, steps=4, size=3, prompt=None):
    """A record of a scored rollout; its last token ends the turn and has no step."""
    random.seed(seed)
    generator = torch.Generator().manual_seed(seed)
    prompt = prompt or f"system\nWhat is {group} and {step}?\nassistant"
    logps = -4 * torch.rand(1, steps + 1, size, generator=generator)
    belief = posterior(logps, beta=1.0)
    values, closing = values_under(belief, logps, torch.tensor([outcome]))
    tokens = steps * STEP_TOKENS + 1
    truth = str(group + step)
    answers = [truth, *(f"other{i}" for i in range(1, size))]
    member = 0 if outcome else 1
    weights = [*values[0].repeat_interleave(STEP_TOKENS).tolist(), closing.item()]
    return {
        "step": step,
        "group": group,
        "rollout": rollout,
        "prompt_id": hashlib.sha256(prompt.encode()).hexdigest()[:12],
        "prompt": prompt,
        "solution": truth,
        "token_ids": [random.randrange(1000) for _ in range(tokens)],
        "tokens": [random.choice(WORDS) for _ in range(tokens - 1)] + ["<end>"],
        "token_logps": (-2 * torch.rand(tokens, generator=generator)).tolist(),
        "importance_ratios": (0.5 + torch.rand(tokens, generator=generator)).tolist(),
        "token_weights": [weight - 0.6 for weight in weights],
        "step_ends": [STEP_TOKENS * (t + 1) for t in range(steps)],
        "step_values": values[0].tolist(),
        "rewards": [outcome],
        "outcome": outcome,
        "advantage": outcome - 0.5,
        "answer": answers[member],
        "hypotheses": answers,
        "member": member,
        "answer_logps": logps[0].tolist(),
        "posterior": belief[0].tolist(),
        "reason": "equal numbers" if outcome else "different",
        "is_cut_off": False,
        "scored_tokens": 100 + seed,
    }


def make_batch(step, *, groups=3, size=4):
    """Records of whole groups; the first group's outcomes are equal."""
    return [
        make_record(
            1000 * step + 10 * g + n,
            step=step,
            group=g,
            rollout=n,
            outcome=float(g == 0 or n % 2),
            steps=2 + (g + n) % 4,
        )
        for g in range(groups)
        for n in range(size)
    ]


def write_run(folder, *, steps=(0, 10, 20), change=lambda records: records, **metadata):
    """Writes records of a run; returns all of them."""
    written = []
    for step in steps:
        records = change(make_batch(step))
        write_records(folder / "beliefs" / file_name(step), records, METADATA | metadata)
        written += records
    return written
