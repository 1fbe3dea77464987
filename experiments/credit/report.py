"""`python -m experiments.credit report`: run the parts, and write one report."""

import argparse
import time
from collections.abc import Sequence
from pathlib import Path

from barl_trl.commands.console import progress_bar
from barl_trl.commands.jobs import run_jobs, write_json
from barl_trl.commands.parsers import printable
from barl_trl.report.json_files import read_json
from barl_trl.report.pages import write_pages

from .parts import PARTS

SUMMARY = (
    "This report compares credits, the rules for the weights of steps, in training. Null and "
    "negative results are results. Sampled accuracy decides."
)


def run(options: argparse.Namespace) -> None:
    """Run the parts asked for, write the report, and say where it is."""
    page = write(options.output_dir, options.parts, options.seeds)
    files = f"{page.name}, report.md, report.json, each run's file"
    print(printable(f"In {options.output_dir}: {files}."))


def write(output_dir: Path, letters: Sequence[str], seeds: int | None) -> Path:
    """Run parts, keep what is there, and write `report.html` and `report.md`.

    Args:
        output_dir: Holds a folder for each part. The report has all parts that were run into it.
        letters: Of the parts.
        seeds: Of each arm; None: those of the part.

    Returns:
        The page.
    """
    with progress_bar(width=32) as progress:
        for letter in letters:
            started = time.perf_counter()
            part = PARTS[letter]
            number = seeds or part.seeds
            stages = part.jobs(output_dir / letter, number)
            task = progress.add_task(part.title, total=sum(map(len, stages)))
            for jobs in stages:
                run_jobs(jobs, lambda task=task: progress.advance(task))
            section = part.section(output_dir / letter, number)
            write_json(output_dir / letter / "section.json", section)
            minutes = (time.perf_counter() - started) / 60
            progress.print(f"{section['title']}: {minutes:.0f} minutes")
    found = [output_dir / letter / "section.json" for letter in PARTS]
    sections = [read_json(path) for path in found if path.exists()]
    report = output_dir / "report.json"
    title = "What the weights of steps do"
    write_json(report, {"title": title, "summary": SUMMARY, "sections": sections})
    return write_pages(report)[0]
