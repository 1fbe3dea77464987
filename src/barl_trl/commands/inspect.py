"""`barl inspect`: a page of what every rollout believed, and why each token was praised."""

import os
from argparse import ArgumentTypeError, Namespace
from pathlib import Path

from ..report.inspector.page import page_files
from .shell.console import mistakes_in_one_line, refuse_overwriting
from .shell.interruption import kept
from .shell.parsers import OneLineParser, printable


def main(argv: list[str]) -> None:
    """Make the page of a run, or of two."""
    parser = OneLineParser(
        prog="barl inspect",
        description="Makes a page that shows what every rollout of a run believed at every step, "
        "and what weight its tokens had. You need only a browser: no server, no network. With two "
        "runs, the page compares rollouts with the same completion, then rollouts that answer the "
        "same prompt.",
    )
    parser.add_argument(
        "runs",
        nargs="+",
        type=Path,
        metavar="RUN",
        help="folder of a run with log_beliefs, or of what `barl evaluate` or `barl analyze "
        "values` wrote",
    )
    parser.add_argument(
        "--output", type=Path, metavar="DIR", help="folder of the page (default: RUN/inspect)"
    )
    parser.add_argument(
        "--serve",
        action="store_true",
        help="serve the page on 127.0.0.1, and add what a live run writes",
    )
    parser.add_argument(
        "--port", type=_port, help="port of --serve (default: 8321); 0: any free one"
    )
    parser.add_argument(
        "--export",
        choices=("verifiers", "trackio"),
        help="no page, but the rollouts as traces: a file traces.jsonl in the folder for verifiers "
        "and prime-rl, or trackio's database on this machine",
    )
    options = parser.parse_args(argv)
    with mistakes_in_one_line("barl inspect"):
        if options.export:
            _refuse_with_export(options)
        if len(options.runs) > 2:
            raise ValueError(f"RUN must be one folder, or two to compare, got {len(options.runs)}.")
        folders = [_folder(run) for run in options.runs]  # before anything heavy is imported
        output = options.output or options.runs[0] / "inspect"
        if output.exists() and not output.is_dir():
            raise ValueError(f"--output must be a folder, got the file {output}: name another.")
        refuse_overwriting([output, output / "data", output / "assets"], folders)
        if (output / "index.html").exists() and not page_files(output):
            raise ValueError(
                f"--output must be a new folder or an earlier page, got {output} with an "
                "index.html of others: name another folder."
            )
        if options.port is not None and not options.serve:
            raise ValueError(f"--port must be left out, got {options.port}: it is one of --serve.")
        if options.export:
            _export(folders[0], _names(options.runs)[0], output, options.export)
            return
        _make(folders, _names(options.runs), output, options)


def _refuse_with_export(options: Namespace) -> None:
    """Refuse options that say nothing to an export."""
    if len(options.runs) > 1:
        raise ValueError(f"RUN must be one folder with --export, got {len(options.runs)}.")
    if options.serve:
        raise ValueError("--serve must be left out with --export: it serves the page.")
    if options.output and options.export == "trackio":
        raise ValueError(
            f"--output must be left out with --export trackio, got {options.output}: trackio keeps "
            "traces in TRACKIO_DIR."
        )


def _export(folder: Path, name: str, output: Path, target: str) -> None:
    """Hand the rollouts of a run to another tool, and say where they are."""
    from ..report.inspector.traces import PROJECT, TRACES, log_to_trackio, write_verifiers

    if target == "verifiers":
        number, path = write_verifiers(folder, output, name), output.resolve() / TRACES
        print(f"{number:,} rollouts in {printable(str(path))}")
        return
    number = log_to_trackio(folder, name)
    print(f"{number:,} rollouts in trackio's project {PROJECT}, run {printable(name)}.")
    print(f"To look at them: trackio show --project {PROJECT}")


def _make(folders: list[Path], names: list[str], output: Path, options: Namespace) -> None:
    """Make the page, and serve it if that is wanted."""
    from ..report.inspector.server import make_server, serve
    from ..report.inspector.site import Site

    site = Site(folders, names, output, is_live=options.serve)
    if not options.serve:
        site.update()
        print(f"{site.rollouts:,} rollouts. Open {printable(str(output.resolve()))}/index.html")
        return
    # a port that is taken is a mistake, found at once
    server = make_server(output, port=8321 if options.port is None else options.port)
    site.update()
    print(f"Serving {site.rollouts:,} rollouts at http://127.0.0.1:{server.server_address[1]}/")
    print("Ctrl-C ends it.", flush=True)
    with kept(lambda: (printable(f"The page is in {output}."), "")):
        serve(site, server)


def _folder(run: Path) -> Path:
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
    if folders:
        raise ValueError(
            f"RUN must have records of one run or benchmark, got {run}: name one of "
            f"{', '.join(str(folder.parent) for folder in folders)}."
        )
    raise ValueError(
        f"RUN must have records of rollouts, beliefs/rollouts_*.parquet, got {run}: train with "
        "log_beliefs, or name what barl evaluate or barl analyze values wrote."
    )


def _convert_new_responses(evaluation: Path) -> None:
    """Write records of responses that are newer than their records, if a folder has any."""
    results = evaluation / "results.json"
    if not results.exists():
        return
    written = [path.stat().st_mtime for path in _records_within(evaluation)]
    if min(written, default=0.0) < results.stat().st_mtime:
        from ..evaluation.records import convert_responses

        convert_responses(evaluation)


def _records_within(folder: Path) -> list[Path]:
    names = ("*/beliefs/rollouts_*.parquet", "*/*/beliefs/rollouts_*.parquet")
    return [path for name in names for path in folder.glob(name)]


def _names(runs: list[Path]) -> list[str]:
    folders = [run.resolve() for run in runs]
    names = [folder.name for folder in folders]
    if len(set(names)) < len(names):  # then the part of the path that differs
        common = os.path.commonpath([folder.parent for folder in folders])
        names = [str(folder.relative_to(common)) for folder in folders]
    return names


def _port(text: str) -> int:
    if not text.isdecimal() or int(text) > 65535:
        raise ArgumentTypeError(f"must be a port, 0 to 65535, got {text!r}")
    return int(text)
