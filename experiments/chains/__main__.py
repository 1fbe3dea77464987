"""`python -m experiments.chains`: the paper's credit where the model's belief sharpens."""

import argparse
from pathlib import Path
from statistics import fmean

from barl_trl.evaluation.comparison import holm

from ..tools import collect, paired, read_json, run_jobs, table, with_error
from .trainings import (
    ARMS,
    BETAS,
    REPORTED_SEEDS,
    Scale,
    accuracies,
    best_rate,
    path_of,
    reported_jobs,
    tuning_jobs,
    warm_job,
)


def main(argv: list[str] | None = None) -> None:
    """Run the trainings whose files are missing, and write the report."""
    parser = argparse.ArgumentParser(
        prog="python -m experiments.chains", description="Compares credits on chains. See PLAN.md."
    )
    parser.add_argument("--arms", nargs="+", choices=ARMS, default=[*ARMS], metavar="ARM")
    parser.add_argument("--quick", action="store_true", help="two steps of each training")
    parser.add_argument("--tuning", action="store_true", help="no training but those that tune")
    parser.add_argument("--processes", type=int, help="trainings at a time; default: the cores")
    parser.add_argument("--collect", type=Path, help="file that gets each training as a line")
    parser.add_argument("--output_dir", type=Path, default=Path("outputs/chains"))
    options = parser.parse_args(argv)
    scale = Scale(steps=2, rollouts=16, tests=32, warm_steps=60) if options.quick else Scale()
    # a file that exists is not made again: the two must not share a folder
    folder = options.output_dir / ("quick" if options.quick else "runs")
    run_jobs("Warm start", [warm_job(folder, scale)], 1)
    run_jobs("Tuning", [*tuning_jobs(folder, options.arms, scale)], options.processes)
    if not options.tuning:
        run_jobs("Chains", [*reported_jobs(folder, options.arms, scale)], options.processes)
        page = folder / "report.md"
        page.write_text(report(folder, options.arms), encoding="utf-8")
        print(f"In {folder}: {page.name}, and each training's file.")
    if options.collect:
        collect(folder, options.collect)


def report(folder: Path, arms: list[str]) -> str:
    """Return the report of a folder's trainings, in Markdown."""
    reached = {arm: _reached(folder, arm) for arm in arms}
    blocks = ["# Chains: does the paper's credit pay where the belief sharpens?"]
    warm = read_json(folder / "warm.json")
    blocks.append(
        "Belief in the truth by line: "
        + ", ".join(f"{belief:.2f}" for belief in warm["belief_by_line"])
        + "; largest belief and how often it is right, by fifths: "
        + ", ".join(f"{belief:.2f} {share:.2f}" for belief, share in warm["calibration"])
        + "."
    )
    rivals = [arm for arm in arms if arm != "grpo" and "grpo" in arms]
    differences = {arm: paired(reached[arm], reached["grpo"]) for arm in rivals}
    corrected = dict(zip(rivals, holm([differences[arm].p for arm in rivals]), strict=True))
    lines = []
    for arm in arms:
        tuned = accuracies(folder, arm)
        lines.append(
            [
                arm,
                with_error(reached[arm], 1),
                str(differences.get(arm, "")),
                f"{corrected[arm]:.3f}" if arm in corrected else "",
                *(f"{100 * tuned[rate]:.1f}" for rate in tuned),
                f"{best_rate(folder, arm):g}",
            ]
        )
    columns = ["arm", "accuracy, %", "less GRPO, points", "p (Holm)"]
    columns += [f"tuning at {rate:g}" for rate in accuracies(folder, arms[0])] + ["rate"]
    blocks.append(table(columns, lines))
    names = [[f"barl-{beta:g}-{baseline}" for beta in BETAS] for baseline in ("step", "none")]
    if all(name in reached for of in names for name in of):
        means = [[fmean(x) for x in zip(*(reached[n] for n in of), strict=True)] for of in names]
        blocks.append(f"BARL with `step` is ahead of `none` by {paired(*means)} points.")
    return "\n\n".join(blocks) + "\n"


def _reached(folder: Path, arm: str) -> list[float]:
    rate = best_rate(folder, arm)
    return [
        100 * read_json(path_of(folder, arm, seed, rate))["accuracy"] for seed in REPORTED_SEEDS
    ]


if __name__ == "__main__":
    main()
