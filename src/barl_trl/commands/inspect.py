"""`barl inspect`: a page of what every rollout believed, and why each token was praised."""

from pathlib import Path

from ..inspector.page import is_page
from ..inspector.site import write_page
from .cli import OneLineParser


def run(argv: list[str]) -> None:
    """Make the page of a run, or of two."""
    parser = OneLineParser(
        prog="barl inspect",
        description="Makes a page that shows what every rollout of a run believed at every step, "
        "and what weight its tokens had. You need only a browser: no server, no network. With two "
        "runs, the page compares rollouts with the same completion, then rollouts that answer the "
        "same prompt.",
    )
    text = "folder of a run with log_beliefs, or of what `barl evaluate` wrote"
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN", help=text)
    text = "folder of the page, if not RUN/inspect"
    parser.add_argument("--output", type=Path, metavar="DIR", help=text)
    options = parser.parse_args(argv)
    if len(options.runs) > 2:
        raise ValueError(f"RUN must be one folder, or two to compare, got {len(options.runs)}.")
    folders = [_folder(one) for one in options.runs]
    output = options.output or options.runs[0] / "inspect"
    written = {(output / name).resolve() for name in ("", "data", "assets")}
    is_run = any(folder.resolve() in written for folder in folders)
    index = output / "index.html"
    is_others = index.exists() and not is_page(index)
    if is_run or is_others or (output.exists() and not output.is_dir()):
        raise ValueError(
            f"--output must be a new folder or an earlier page, got {output}: name another."
        )
    names = [run.resolve().name for run in options.runs]
    names = names if len({*names}) == len(names) else [*map(str, options.runs)]
    number = write_page(folders, names, output)
    print(f"{number:,} rollouts. Open {output.resolve()}/index.html")


def _folder(run: Path) -> Path:
    """Return the folder of records that a run has, or an evaluation of one benchmark."""
    place = run.resolve()
    if (place.parent / f"{place.name}.jsonl").exists():
        _convert_new_responses(place.parent)
    for folder in (run / "beliefs", run):
        if any(folder.glob("rollouts_*.parquet")):
            return folder
    _convert_new_responses(run)
    folders = sorted({path.parent for path in _records_within(run)})
    if len(folders) == 1:
        return folders[0]
    way = ", ".join(str(folder.parent) for folder in folders)
    way = f"name one of {way}." if way else "train with log_beliefs, or name an evaluation."
    raise ValueError(
        f"RUN must have records of one run or benchmark, beliefs/rollouts_*, got {run}: {way}"
    )


def _convert_new_responses(evaluation: Path) -> None:
    """Write records of responses that are newer than their records, if a folder has any."""
    results = evaluation / "results.json"
    written = [path.stat().st_mtime for path in _records_within(evaluation)]
    if results.exists() and min(written, default=0.0) < results.stat().st_mtime:
        from ..evaluation.records import convert_responses  # it imports TRL

        convert_responses(evaluation)


def _records_within(folder: Path) -> list[Path]:
    names = ("*/beliefs/rollouts_*.parquet", "*/*/beliefs/rollouts_*.parquet")
    return [path for name in names for path in folder.glob(name)]
