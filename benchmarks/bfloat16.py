"""How far bfloat16 moves what scoring finds, on the shipped trained models (part of `gpu.py`)."""

from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor
from transformers import AutoModelForCausalLM, AutoTokenizer

from barl_trl import Rollout, answer_log_likelihoods
from barl_trl.plausibility.elicitation import Elicitation
from barl_trl.steps import fixed_size_steps
from barl_trl.synthetic.number import NUMBER_MODEL_DIR, number_rows
from barl_trl.synthetic.search import TINY_MODEL_DIR, search_rows

MODELS = {
    "search": (TINY_MODEL_DIR, search_rows),
    "number": (NUMBER_MODEL_DIR, number_rows),
}


class Exact(NamedTuple):
    """Rollouts that a model sampled, and what it finds in float32 on a CPU."""

    folder: Path
    rollouts: list[Rollout]
    elicitation_ids: list[int]
    scored: Any


def prepared(path: Path, number: int) -> dict[str, Exact]:
    """Return some rollouts of each model with their values, from a file or anew."""
    if path.exists():
        return torch.load(path, weights_only=False)
    found = {}
    for name, (folder, make_rows) in MODELS.items():
        model: Any = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
        tokenizer: Any = AutoTokenizer.from_pretrained(folder)
        asking, rollouts = Elicitation(tokenizer), []
        for n, row in enumerate(make_rows(number, seed=0)):
            prompt, truth = row["prompt"], int(row["solution"])
            if not isinstance(prompt, str):
                prompt = tokenizer.apply_chat_template(
                    prompt, tokenize=False, add_generation_prompt=True
                )
            ids = tokenizer.encode(prompt, return_tensors="pt", add_special_tokens=False)
            torch.manual_seed(n)
            own = model.generate(ids, do_sample=True, max_new_tokens=64)[0, ids.shape[1] :].tolist()
            answers = [str(truth + more) for more in range(4)]
            ends = fixed_size_steps(own, step_size=8)
            rollouts.append(asking.rollout(ids[0].tolist(), own, ends, answers))
        scored = answer_log_likelihoods(model, rollouts, elicitation_ids=asking.token_ids)
        found[name] = Exact(folder, rollouts, asking.token_ids, scored)
    torch.save(found, path)
    return found


def differences(exact: Exact, dtype: torch.dtype, device: str) -> dict[str, float]:
    """Say how far log-likelihoods move, and by how much a step raises the truth's probability."""
    model: Any = AutoModelForCausalLM.from_pretrained(exact.folder, dtype=dtype)
    found = answer_log_likelihoods(
        model.eval().to(device), exact.rollouts, elicitation_ids=exact.elicitation_ids
    )
    scored, logps = exact.scored, found.answer_logps.cpu()
    exists = scored.state_mask[..., None] & scored.hypothesis_mask[:, None]

    def values(answer_logps: Tensor) -> Tensor:
        return answer_logps.softmax(-1)[..., 0].diff(dim=1)[scored.state_mask[:, 1:]]

    moved, right = values(logps), values(scored.answer_logps)
    return {
        "rollouts": len(exact.rollouts),
        "logp_difference": (logps - scored.answer_logps).abs()[exists].mean().item(),
        "logp_spread": scored.answer_logps[exists].std().item(),
        "value_difference": (moved - right).abs().mean().item(),
        "value_spread": right.std().item(),
        "signs_that_differ": (moved.sign() != right.sign()).float().mean().item(),
    }
