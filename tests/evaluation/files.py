"""Response files as `barl evaluate` writes them."""

import json
from dataclasses import asdict, replace

from barl_trl.evaluation.responses import Response

DEFAULTS = {"benchmark": "math500", "problem": "1 + 1?", "solution": "2", "prompt": "1 + 1?\n"}
DEFAULTS |= {"tokens": 10, "truncated": False, "answer": None, "reason": "numbers"}


def response(problem_id, sample, reward, *, text="So it is.", **fields):
    own = {"problem_id": problem_id, "sample": sample, "reward": float(reward), "response": text}
    return Response(**DEFAULTS | own | fields)


def problems(rewards, **fields):
    """`rewards[problem][sample]` -> responses by problem."""
    return {
        problem_id: [response(problem_id, n, reward, **fields) for n, reward in enumerate(samples)]
        for problem_id, samples in enumerate(rewards)
    }


def write_responses(folder, by_problem, *, benchmark="math500", model="tiny"):
    folder.mkdir(parents=True, exist_ok=True)
    lines = [
        json.dumps(asdict(replace(one, benchmark=benchmark)))
        for group in by_problem.values()
        for one in group
    ]
    (folder / f"{benchmark}.jsonl").write_text("\n".join(lines) + "\n")
    (folder / "results.json").write_text(json.dumps({"model": model}))
    return folder
