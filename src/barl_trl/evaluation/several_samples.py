"""What several samples of each problem amount to: avg@k, pass@k, cons@k, G-Pass@k."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .consensus import cons_at_k, count_votes
from .metrics import accuracy, mean_pass_at_k, share_interval
from .responses import Response
from .stability import mean_g_pass_at_k, mean_mg_pass_at_k

SHARES = (0.25, 0.5, 0.75, 1.0)
"""The thresholds of G-Pass@k: those of arXiv 2412.13147."""

MOST_DRAWN = 64
"""Largest k at which a vote of fewer than all samples is computed: its cost grows steeply."""


def summarize_samples(
    groups: Sequence[Sequence[Response]], equivalent: Callable[[str, str], bool] | None = None
) -> dict[str, Any]:
    """Summarise the samples of each problem, as they stand in `results.json`, by k.

    With n samples, pass@k stands there for all k up to n, the others for the powers of two and n,
    avg@k for n alone: it is the accuracy, with its interval of 95 % over problems.

    Args:
        groups: The responses to each problem; n is the smallest number of them.
        equivalent: Whether the second answer is the same as the first, taken as true. Without it
            there is no cons@k.
    """
    rewards = [[response.reward for response in group] for group in groups]
    most = min(map(len, groups))
    found: dict[str, Any] = {
        "pass@k": {str(k): mean_pass_at_k(rewards, k)._asdict() for k in range(1, most + 1)}
    }
    if most == 1:
        return found
    ks = sorted({most, *(2**i for i in range(most.bit_length()) if 2**i <= most)})
    average = accuracy(rewards)
    low, high = share_interval(average, len(rewards)) or (None, None)
    found["avg@k"] = {str(most): average._asdict() | {"low": low, "high": high}}
    if equivalent:
        votes = [count_votes(group, equivalent) for group in groups]
        found["cons@k"] = {
            str(k): accuracy([[cons_at_k(one, k)] for one in votes])._asdict()
            for k in ks
            if k <= MOST_DRAWN or all(k == one.total for one in votes)
        }
    found["G-Pass@k"] = {
        str(k): {f"{tau:g}": mean_g_pass_at_k(rewards, k, tau)._asdict() for tau in SHARES}
        for k in ks
    }
    found["mG-Pass@k"] = {str(k): mean_mg_pass_at_k(rewards, k)._asdict() for k in ks}
    return found


def sample_rows(results: Mapping[str, Any]) -> list[dict[str, str]]:
    """Return the benchmarks of `results.json` as rows of a table on their samples.

    There are none with one sample of each problem, nor in results of older versions.
    """
    rows = []
    for name, row in results["benchmarks"].items():
        for k, average in row.get("avg@k", {}).items():
            low, high = average["low"], average["high"]
            ends = "" if low is None else f" [{100 * low:.1f}, {100 * high:.1f}]"
            values = {
                f"pass@{k}": row["pass@k"],
                f"cons@{k}": row.get("cons@k", {}),
                f"G-Pass@{k} (1)": {k: row["G-Pass@k"][k]["1"]},
                f"mG-Pass@{k}": row["mG-Pass@k"],
            }
            cells = {"benchmark": name, f"avg@{k} [95 %]": f"{100 * average['mean']:.1f}{ends}"}
            cells |= {
                column: f"{100 * by_k[k]['mean']:.1f}" if k in by_k else ""
                for column, by_k in values.items()
            }
            rows.append(cells)
    return rows
