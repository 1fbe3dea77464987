r"""The paper's didactic example: find the triplet of actions that pays.

An episode is a prompt token and 29 actions from {0, 1, 2}; it is solved when the prompt token came
three times in a row. A hypothesis M says which triplet pays: $r_M(t) = 1$ at the step that
completes it for the first time. Beliefs and values are those of [`~barl_trl.posterior`] with these
rewards, `beta = inf`, no plausibilities and no outcome reward beside.
"""

import argparse
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from barl_trl.evaluation.results import text_table
from barl_trl.posterior import posterior_weighted_values

from ..tools import FileJob, read_json, run_jobs, write_json
from .common import Rows, line_style, panels

NUM_ACTIONS = 3
NUM_STEPS = NUM_ACTIONS**3 + 2  # the shortest sequence that holds every triplet
_TRAINING_PROMPTS = (0, 1)
_UNSEEN_PROMPT = 2
ALL_TRIPLETS = tuple(product(range(NUM_ACTIONS), repeat=3))
_FLOOR = 0.3  # beside the standard deviation: where all episodes are alike, chance would blow up
REPEATS = tuple((action,) * 3 for action in range(NUM_ACTIONS))


@dataclass(frozen=True)
class TripletArm:
    """The objective that a policy is trained with."""

    title: str
    triplets: tuple[tuple[int, ...], ...] = ()
    """The hypotheses beside the true triplet, which always is one."""
    entropy_bonus: float = 0.0
    """Coefficient of the entropy bonus at the first iteration; it falls to 0 linearly."""
    literal: bool = False
    """The value of a step is the indicator of a new triplet (RL: of success), without baseline."""


_ENTROPY_BONUS = 0.03
ARMS = {
    "rl": TripletArm("RL (REINFORCE)"),
    "barl-27": TripletArm("BARL, 27 hypotheses", ALL_TRIPLETS, _ENTROPY_BONUS),
    "barl-3": TripletArm("BARL, 3 hypotheses", REPEATS, _ENTROPY_BONUS),
}
MORE_ARMS = {"rl-entropy": TripletArm("RL, entropy bonus", (), _ENTROPY_BONUS)} | {
    f"{name}-literal": TripletArm(f"{arm.title}, literal", arm.triplets, literal=True)
    for name, arm in ARMS.items()
}
"""More arms for docs/paper.md: RL with BARL's entropy bonus, and the paper read literally."""

REFERENCES = {
    "uniform policy, a repeat": 0.523953447,
    "uniform policy, mean of 27": 0.642531109,
    "best Markovian policy, 3 hypotheses": 0.599862168,
    "best policy that sees the last action, 3 hypotheses": 0.891320200,
    "best policy that sees the last 2 actions, 3 hypotheses": 0.943257740,
    "optimal adaptive policy": 1.0,
    "its steps, 27 hypotheses": 29,
    "its mean steps, 27 hypotheses": 16.0,
    "its steps, 3 hypotheses": 9,
    "its mean steps, 3 hypotheses": 6.0,
}
"""Success in an episode, or steps until every hypothesis is settled; the tests compute them."""


@dataclass(frozen=True)
class Settings:
    """Settings of a policy's training, the same for all arms."""

    iterations: int = 1600
    batch_size: int = 256
    learning_rate: float = 3e-3
    """It falls to 0 linearly over the last quarter of the iterations."""
    width: int = 32
    evaluations: int = 40
    """Evaluations after the one before training, evenly spaced."""
    completions: int = 50
    """Completions per prompt of an evaluation."""


def hypotheses(
    prompts: Int[Tensor, " batch"], triplets: tuple[tuple[int, ...], ...]
) -> Int[Tensor, "batch hypothesis 3"]:
    """Return the hypotheses of each prompt: first its own triplet, the truth, then the others."""
    truth = prompts[:, None].expand(-1, 3)
    sets = [[token, *(list(t) for t in triplets if list(t) != token)] for token in truth.tolist()]
    return torch.tensor(sets)


def completed(
    actions: Int[Tensor, "batch step"], triplets: Int[Tensor, "batch hypothesis 3"]
) -> Bool[Tensor, "batch state hypothesis"]:
    """Say whether each triplet is among the actions before each state."""
    windows = actions.unfold(1, 3, 1)  # batch, step - 2, 3
    hits = (windows[:, :, None] == triplets[:, None]).all(dim=-1)
    return nn.functional.pad(hits.cummax(dim=1).values, (0, 0, 3, 0))


def step_values(
    actions: Int[Tensor, "batch step"], triplets: Int[Tensor, "batch hypothesis 3"]
) -> Float[Tensor, "batch step"]:
    r"""Compute the posterior-weighted value of every action, eq. (adv_algo) with `beta = inf`.

    Before the truth is found, the hypotheses that have not paid are consistent, all with the same
    weight. The value of a step is the share of them that this and later actions complete.
    """
    done = completed(actions, triplets).float()
    outcomes = torch.zeros(len(actions))
    return posterior_weighted_values(
        None, outcomes, beta=math.inf, rewards=done[:, 1:] - done[:, :-1]
    )


def new_triplet(
    actions: Int[Tensor, "batch step"], triplets: Int[Tensor, "batch hypothesis 3"]
) -> Float[Tensor, "batch step"]:
    """Compute the paper's shortcut: 1 where an action completes a triplet that is new."""
    done = completed(actions, triplets)
    return (done[:, 1:] & ~done[:, :-1]).any(dim=-1).float()


class Policy(nn.Module):
    """A transformer encoder with 2 heads and a linear layer; it sees the prompt and all actions."""

    def __init__(self, width: int):
        super().__init__()
        # As a prompt, a token must not look like an action taken. Embeddings of prompts start at
        # zero, so that an unseen prompt says nothing, rather than something at random.
        self.prompts = nn.Embedding(NUM_ACTIONS, width)
        self.actions = nn.Embedding(NUM_ACTIONS, width)
        self.places = nn.Embedding(NUM_STEPS, width)
        nn.init.zeros_(self.prompts.weight)
        nn.init.normal_(self.actions.weight, std=0.1)
        nn.init.normal_(self.places.weight, std=0.1)
        self.attention = nn.MultiheadAttention(width, 2, batch_first=True)
        self.feed_forward = nn.Sequential(
            nn.Linear(width, 4 * width), nn.ReLU(), nn.Linear(4 * width, width)
        )
        self.norms = nn.ModuleList([nn.LayerNorm(width), nn.LayerNorm(width)])
        self.head = nn.Linear(width, NUM_ACTIONS)
        nn.init.zeros_(self.head.weight)  # the first policy is the uniform one
        nn.init.zeros_(self.head.bias)

    def forward(
        self, prompts: Int[Tensor, " batch"], actions: Int[Tensor, "batch step"]
    ) -> Float[Tensor, "batch state 3"]:
        """Return log-probabilities of the action at every state, also after the last action."""
        hidden = self._embed(prompts, actions)
        mask = nn.Transformer.generate_square_subsequent_mask(hidden.shape[1])
        return self._logps(hidden, hidden, mask)

    @torch.no_grad()
    def sample(self, prompts: Int[Tensor, " batch"]) -> Int[Tensor, "batch step"]:
        """Sample the actions of whole episodes."""
        actions = prompts.new_empty(len(prompts), 0)
        for _ in range(NUM_STEPS):
            hidden = self._embed(prompts, actions)
            action = self._logps(hidden[:, -1:], hidden, None)[:, 0].exp().multinomial(1)
            actions = torch.cat([actions, action], dim=1)
        return actions

    def _embed(self, prompts: Tensor, actions: Tensor) -> Tensor:
        tokens = torch.cat([self.prompts(prompts)[:, None], self.actions(actions)], dim=1)
        return tokens + self.places.weight[: tokens.shape[1]]

    def _logps(self, queries: Tensor, hidden: Tensor, mask: Tensor | None) -> Tensor:
        """Apply the encoder's one layer and the head, at some of the states."""
        seen, _ = self.attention(queries, hidden, hidden, attn_mask=mask, need_weights=False)
        seen = self.norms[0](queries + seen)
        return self.head(self.norms[1](seen + self.feed_forward(seen))).log_softmax(dim=-1)


def train(arm: TripletArm, seed: int, settings: Settings) -> list[dict[str, float | int]]:
    """Train a policy, and return its accuracies on the way, the first before training.

    The records have `iteration`, `train_accuracy` (of the training prompts) and `unseen_accuracy`.
    """
    torch.manual_seed(seed)
    policy = Policy(settings.width)
    optimizer = torch.optim.Adam(policy.parameters(), settings.learning_rate)
    prompts = torch.tensor(_TRAINING_PROMPTS).repeat_interleave(
        settings.batch_size // len(_TRAINING_PROMPTS)
    )
    triplets = hypotheses(prompts, arm.triplets)
    every = max(1, settings.iterations // settings.evaluations)
    records = []
    for iteration in range(settings.iterations + 1):
        if iteration % every == 0:
            records.append({"iteration": iteration, **evaluate(policy, settings.completions)})
        share_left = 1 - iteration / settings.iterations
        for group in optimizer.param_groups:
            group["lr"] = settings.learning_rate * min(1, 4 * share_left)
        loss = _loss(policy, prompts, triplets, arm, arm.entropy_bonus * share_left)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return records


def evaluate(policy: Policy, completions: int) -> dict[str, float]:
    """Measure accuracies on the training prompts (their mean) and on the unseen one."""
    *trained, unseen = (
        _accuracy(policy, torch.full((completions,), prompt))
        for prompt in (*_TRAINING_PROMPTS, _UNSEEN_PROMPT)
    )
    return {"train_accuracy": sum(trained) / len(trained), "unseen_accuracy": unseen}


def _accuracy(policy: Policy, prompts: Tensor) -> float:
    done = completed(policy.sample(prompts), hypotheses(prompts, ()))
    return done[:, -1, 0].float().mean().item()


def _loss(policy: Policy, prompts: Tensor, triplets: Tensor, arm: TripletArm, entropy_bonus: float):
    """Compute the policy-gradient loss of one batch of episodes, eq. (bayes_gradient)."""
    actions = policy.sample(prompts)
    logps = policy(prompts, actions[:, :-1])
    chosen = logps.gather(-1, actions[..., None]).squeeze(-1)
    if arm.literal:
        solved = completed(actions, triplets)[:, -1, :1].float().expand_as(chosen)
        weights = new_triplet(actions, triplets) if arm.triplets else solved
        return -(chosen * weights).sum(dim=1).mean()
    # Once the truth is found nothing is left to win: these steps have value 0 in every episode.
    # Against the mean of the others they would look like mistakes; an entropy bonus alone would
    # make them random.
    is_open = ~completed(actions, triplets[:, :1])[:, :-1, 0]
    of_steps = step_values(actions, triplets)
    means = (of_steps * is_open).sum(dim=0) / is_open.sum(dim=0).clamp(min=1)
    deviations = torch.where(is_open, of_steps - means, 0.0)
    advantages = deviations / (deviations[is_open].std() + _FLOOR)
    entropy = -(logps.exp() * logps).sum(dim=-1) * is_open
    return -(chosen * advantages + entropy_bonus * entropy).sum(dim=1).mean()


# The experiment

_ACCURACIES = {"train_accuracy": "training prompts 0 and 1", "unseen_accuracy": "unseen prompt 2"}
_SOLVED = 0.9  # the mean accuracy of the seeds, on both kinds of prompts, that is learned


def run_into(path: Path, name: str, seed: int, settings: Settings) -> None:
    """Train an arm with a seed in a process of its own, and write its records."""
    records = train((ARMS | MORE_ARMS)[name], seed, settings)
    write_json(path, [{"arm": name, "seed": seed, **record} for record in records])


def accuracy_rows(titles: Mapping[str, str], records: Rows) -> list[dict[str, str]]:
    """Return the final accuracies of each arm, and how many iterations it needed."""
    rows = []
    for arm, title in titles.items():
        of_arm = [record for record in records if record["arm"] == arm]
        row = {"arm": title}
        for name, prompts in _ACCURACIES.items():
            last = max(record["iteration"] for record in of_arm)
            final = [record[name] for record in of_arm if record["iteration"] == last]
            spread = f" ± {stdev(final):.2f}" if len(final) > 1 else ""
            row[prompts] = f"{fmean(final):.2f}{spread}"
        rows.append(row | {"iterations needed": _iterations_needed(of_arm)})
    return rows


def _iterations_needed(records: Rows) -> str:
    """Return the first evaluation from which on both mean accuracies stay at `_SOLVED`."""
    needed = "never"
    for iteration in sorted({record["iteration"] for record in records}, reverse=True):
        here = [record for record in records if record["iteration"] == iteration]
        if any(fmean(record[name] for record in here) < _SOLVED for name in _ACCURACIES):
            break
        needed = str(iteration)
    return needed


def draw(titles: Mapping[str, str], records: Rows, path: Path) -> None:
    """Draw mean and standard deviation of the accuracy over the seeds, by arm and iteration."""
    with panels(path, 2, title="Accuracy, mean ± std over seeds") as (_, axes):
        for axis, (accuracy, prompts) in zip(axes[0], _ACCURACIES.items(), strict=True):
            for n, (arm, title) in enumerate(titles.items()):
                of_arm = [record for record in records if record["arm"] == arm]
                iterations = sorted({record["iteration"] for record in of_arm})
                curves = np.array(
                    [[r[accuracy] for r in of_arm if r["iteration"] == i] for i in iterations]
                )
                means, spread = curves.mean(axis=1), curves.std(axis=1)
                color, dashes = line_style(n)["color"], line_style(n)["linestyle"]
                axis.plot(iterations, means, color=color, linestyle=dashes, label=title)
                low, high = (means - spread).clip(0), (means + spread).clip(max=1)
                axis.fill_between(iterations, low, high, color=color, alpha=0.15, linewidth=0)
            for name in ("uniform policy, a repeat", "best Markovian policy, 3 hypotheses"):
                axis.axhline(REFERENCES[name], color="0.5", linewidth=0.8)
                axis.annotate(name, (0, REFERENCES[name]), va="bottom", fontsize=7, color="0.35")
            axis.set(title=prompts, xlabel="iteration", ylim=(-0.02, 1.02))


def show(title: str, titles: Mapping[str, str], jobs: Sequence[FileJob], folder: Path) -> Any:
    """Run the jobs, draw and print what they reached, and return their records."""
    run_jobs("training", jobs)
    records = [record for job in jobs for record in read_json(job.path)]
    draw(titles, records, folder / "triplets.png")
    print(text_table(title, accuracy_rows(titles, records)))
    return records


def main(argv: list[str] | None = None) -> None:
    """Train every arm with every seed, write `results.json` and `triplets.png`, print tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3, help="seeds per arm (default: 3)")
    parser.add_argument("--iterations", type=int, default=Settings.iterations)
    text = "add RL with BARL's entropy bonus, and the paper's text read literally"
    parser.add_argument("--more_arms", action="store_true", help=text)
    parser.add_argument("--output_dir", type=Path, default=Path("outputs/triplets"))
    options = parser.parse_args(argv)
    arms, folder = ARMS | MORE_ARMS if options.more_arms else ARMS, options.output_dir
    settings = Settings(iterations=options.iterations)
    jobs = [
        FileJob(
            folder / "runs" / f"{name}-{seed}-{settings.iterations}.json",
            run_into,
            (name, seed, settings),
        )
        for seed in range(options.seeds)
        for name in arms
    ]
    title = f"Accuracy after {settings.iterations} iterations, {options.seeds} seed(s)"
    records = show(title, {name: arm.title for name, arm in arms.items()}, jobs, folder)
    write_json(folder / "results.json", {"references": REFERENCES, "records": records})
    exact = [{"policy": name, "value": f"{value:.4g}"} for name, value in REFERENCES.items()]
    print(text_table("Exact", exact))


if __name__ == "__main__":
    main()
