"""Records as JSON for the page: a rollout's line in the list, and its details."""

from collections.abc import Collection, Mapping, Sequence
from itertools import pairwise
from os.path import commonprefix
from typing import Any, NamedTuple

import numpy as np

from ..trainer.records import likeliest
from .derived import Derived, Members, derive, has_truth, own_tokens
from .filters import kinds, mean_weight

_SNIPPET = 160
"""Most characters of a text in the list."""
_NAMED = 6
"""Most hypotheses that are named of those that an observation rules out."""
_DECIMALS = 5
"""Number of decimals of a number on the page, unless a function is given another."""

COLUMNS = ("group", "rollout", "outcome", "tokens", "cost", "mean", "spread", "kinds", "answer")
COLUMNS += ("return",)
"""Columns of the list of rollouts. `group` is the number of the group in the run."""

_AS_RECORDED = ("rollout", "answer", "reason", "is_cut_off", "ended_by_tool")
_AS_RECORDED += ("scored_tokens", "tokens", "token_ids", "step_ends")
_AS_RECORDED += ("own_tokens", "turn_ends", "observed_tools")
"""Columns of records that the page gets as they are; numbers are rounded, or computed."""


class Group(NamedTuple):
    """The rollouts of a prompt, as JSON values."""

    head: list[Any]
    """Step, group, prompt id, and the beginnings of prompt and solution."""
    lines: list[list[Any]]
    """For each rollout its values in [`COLUMNS`], without `group`."""
    details: dict[str, Any]
    """Everything that the page shows of the prompt and of each rollout."""
    keys: list[tuple[str, int]]
    """For each rollout its prompt id, and a hash of prompt id and completion."""


def groups_of(records: Sequence[Mapping[str, Any]], metadata: Mapping[str, Any]) -> list[Group]:
    """Return the groups of all records, at least one, of a file."""
    members_of: dict[tuple[int, str], list[tuple[Mapping[str, Any], Derived]]] = {}
    for member in zip(records, derive(records, metadata), strict=True):
        place = member[0]["group"], member[0]["prompt_id"]
        members_of.setdefault(place, []).append(member)
    start, stop = _shared_ends({members[0][0]["prompt"] for members in members_of.values()})
    return [_group(members, metadata, start, stop) for members in members_of.values()]


def _shared_ends(prompts: Collection[str]) -> tuple[int, int]:
    r"""Return how many characters at the beginning and end of all prompts are the chat template's.

    >>> _shared_ends({"<s>\nTwo and two?</s>", "<s>\nTwo and three?</s>"})
    (4, 4)
    """
    if len(prompts) < 2:
        return 0, 0
    before = commonprefix([*prompts])  # noqa: RUF071 (of characters)
    behind = commonprefix([prompt[::-1] for prompt in prompts])[::-1]  # noqa: RUF071
    start = max(before.rfind(mark) for mark in "\n>") + 1
    ends = [place for place in map(behind.find, "\n<") if place >= 0]
    stop = len(behind) - min(ends, default=len(behind))
    return (start, stop) if start + stop < min(map(len, prompts)) else (0, 0)


def _group(members: Members, metadata: Mapping[str, Any], start: int, stop: int) -> Group:
    """Return the JSON of a group, whose prompt lies between `start` and `stop` characters."""
    first = members[0][0]
    head = [
        *(first[name] for name in ("step", "group", "prompt_id")),
        first["prompt"][start : len(first["prompt"]) - stop].strip()[:_SNIPPET],
        (first["solution"] or "")[:_SNIPPET],
    ]
    bits = kinds(members, metadata.get("settings", {}))
    lines = [_line(*member, bits[n]) for n, member in enumerate(members)]
    details = {name: first[name] for name in ("step", "group", "prompt_id", "prompt", "solution")}
    details["reward_names"] = metadata.get("reward_names", [])
    belief = metadata.get("settings", {}).get("belief", "model")
    units = [_unit(record) for record, _ in members]
    details["rollouts"] = [
        _details(*member, bits[n], belief)
        | {"unit": "part" if units[n] == "line" and "part" in units else units[n]}
        for n, member in enumerate(members)
    ]
    # a game's prompt need not name the secret
    prompts = [f"{r['prompt_id']} {r['solution']}" for r, _ in members]
    texts = ["".join(record["tokens"]) for record, _ in members]
    keys = [(prompt, hash((prompt, text))) for prompt, text in zip(prompts, texts, strict=True)]
    return Group(head, lines, details, keys)


def _line(record: Mapping[str, Any], derived: Derived, bits: int) -> list[Any]:
    return [
        record["rollout"],
        rounded(record["outcome"], 4),
        len(record["token_ids"]),
        record["scored_tokens"],
        rounded(mean_weight(record, derived), 4),
        rounded(np.ptp(derived.weights) if len(derived.weights) else 0.0, 4),
        bits,
        None if record["answer"] is None else record["answer"][:_SNIPPET],
        derived.total,
    ]


def _unit(record: Mapping[str, Any]) -> str:
    """Return what the steps of a rollout are: turns, lines of its text, or else parts of it."""
    turns, ends = record["turn_ends"], record["step_ends"]
    is_one = turns is None and record["turn_rewards"] is not None and len(ends) < 2
    if is_one or (turns is not None and len(turns) == len(ends)):
        return "turn"
    texts = ["".join(record["tokens"][a:b]) for a, b in pairwise([0, *ends])]
    is_apart = all(a.endswith("\n") or b.startswith("\n") for a, b in pairwise(texts))
    return "line" if is_apart and not any("\n" in text.strip() for text in texts) else "part"


def _details(record: Mapping[str, Any], derived: Derived, bits: int, belief: str) -> dict[str, Any]:
    return {name: record[name] for name in _AS_RECORDED} | {
        "kinds": bits,
        "outcome": rounded(record["outcome"]),
        "advantage": rounded(record["advantage"]),
        "rewards": rounded(record["rewards"]),
        "logps": rounded(record["token_logps"], 4),
        "ratios": rounded(record["importance_ratios"], 4),
        "step_values": rounded(record["step_values"]),
        "turn_rewards": rounded(record["turn_rewards"]),
        "token_weights": _uneven(record, derived),
        "difference": rounded(derived.difference),
        "closing": rounded(_closing_value(record)),
        "weights": rounded(derived.weights),
        "methods": {name: rounded(values) for name, values in derived.methods.items()},
        **{name: rounded(getattr(derived, name)) for name in ("values", "entropy", "expected")},
        "total": derived.total,
        "belief": belief,
        "cost": rounded(record["cost"]),
        "predicts": record["predicted_rewards"] is not None,
        "has_truth": has_truth(record),
        "ruled_out": _ruled_out(record, derived) if belief != "model" else None,
        **_of_hypotheses(record, derived),
    }


def _of_hypotheses(record: Mapping[str, Any], derived: Derived) -> dict[str, Any]:
    """Return the JSON of the hypotheses that are shown, and sums over the `rest` of them.

    There may be thousands, of which most are never believed more than others.
    """
    size, w, q, v = len(record["hypotheses"] or ()), derived.w, derived.q, derived.v
    if w is None:
        return dict.fromkeys(("hypotheses", "member", "p", "w", "q", "v", "rest")) | {"size": size}
    shown = likeliest(w, 0 if has_truth(record) else None, record["member"])
    hidden = sorted({*range(size)} - {*shown})
    rest = None
    if hidden:
        rest = {
            "number": len(hidden),
            "most": rounded(w[:, hidden].max()),
            "w": rounded(w[:, hidden].sum(axis=1)),
            "wq": None if q is None else rounded((w[:-1, hidden] * q[:, hidden]).sum(axis=1)),
            "wv": None if v is None else rounded((w[-1, hidden] * v[hidden]).sum()),
        }
    return {
        "size": size,
        "hypotheses": [record["hypotheses"][i] for i in shown],
        "member": None if record["member"] is None else shown.index(record["member"]),
        "p": rounded(None if derived.p is None else derived.p[:, shown]),
        "w": rounded(w[:, shown]),
        "q": rounded(None if q is None else q[:, shown]),
        "v": rounded(None if v is None else v[shown]),
        "rest": rest,
    }


def _ruled_out(record: Mapping[str, Any], derived: Derived) -> Any:
    """Return for each step how many hypotheses it ruled out, of how many, and the texts of some."""
    if derived.w is None:
        return None
    is_left, told = derived.w > 0, []
    for before, after in pairwise(is_left):
        places = np.flatnonzero(before & ~after)
        names = [record["hypotheses"][i] for i in places[:_NAMED]]
        told.append([len(places), int(before.sum()), names])
    return told


def _uneven(record: Mapping[str, Any], derived: Derived) -> Any:
    """Return the recorded weights of tokens; None if the weights of steps say the same."""
    recorded, ends = record["token_weights"], record["step_ends"]
    if not recorded or not ends:
        return rounded(recorded, 4)
    flat = np.repeat(derived.weights, np.diff([0, *ends])) * own_tokens(record)[: ends[-1]]
    is_even = np.allclose(recorded[: ends[-1]], flat, atol=1e-6)
    return None if is_even and len(set(recorded[ends[-1] :])) < 2 else rounded(recorded, 4)


def _closing_value(record: Mapping[str, Any]) -> float | None:
    """Return the weight of the tokens after the last step, if any has one."""
    end = record["step_ends"][-1] if record["step_ends"] else 0
    weights = record["token_weights"] or ()
    return weights[end] if len(weights) > end else None


def rounded(values: Any, decimals: int = _DECIMALS) -> Any:
    """Return numbers rounded, as JSON can hold them: None for numbers that are not finite."""
    if values is None:
        return None
    array = np.round(np.asarray(values, dtype=float), decimals) + 0.0  # no negative zero
    if np.isfinite(array).all():
        return array.tolist()
    missing: Any = None
    return np.where(np.isfinite(array), array.astype(object), missing).tolist()
