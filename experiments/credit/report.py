"""`python -m experiments.credit report`: run the parts, and write one report."""

import argparse
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from barl_trl.commands.shell.console import progress_bar
from barl_trl.commands.shell.jobs import run_jobs
from barl_trl.commands.shell.parsers import printable
from barl_trl.report.json_files import read_json, write_json
from barl_trl.report.markdown import escape, table

from .parts import PARTS, Section

SUMMARY = (
    "This report compares credits, the rules for the weights of steps, in training. Null and "
    "negative results are results. Sampled accuracy decides."
)


def run(options: argparse.Namespace) -> None:
    """Run the parts asked for, write the report, and say where it is."""
    page = write(options.output_dir, options.parts, options.seeds)
    print(printable(f"In {options.output_dir}: {page.name}, and each run's file."))


def write(output_dir: Path, letters: Sequence[str], seeds: int | None) -> Path:
    """Run the jobs of parts whose files are missing, and write `report.md`.

    Args:
        output_dir: Holds a folder for each part. The report has all parts that were run into it.
        letters: Letters of the parts to run.
        seeds: Seeds of each arm; None: the part's default.

    Returns:
        Path of `report.md`.
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
    files = [output_dir / letter / "section.json" for letter in PARTS]
    sections = [read_json(file) for file in files if file.exists()]
    page = output_dir / "report.md"
    blocks = ["# What the weights of steps do", SUMMARY]
    blocks += [block for section in sections for block in _markdown(section)]
    page.write_text("\n\n".join(blocks) + "\n", encoding="utf-8")
    return page


def _markdown(section: Section) -> Iterator[str]:
    """Yield the blocks of a section: its heading, its text and its tables."""
    yield f"## {section['title']}"
    yield section["text"]
    for content in section["tables"]:
        yield f"**{escape(content['caption'])}**"
        yield table(content["columns"], content["rows"])
