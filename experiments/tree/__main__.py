"""`python -m experiments.tree`: what adaptive and Markovian policies attain on the paper's tree."""

from pathlib import Path

from barl_trl.commands.shell.console import print_table
from barl_trl.commands.shell.parsers import OneLineParser, printable
from barl_trl.report.json_files import write_json

from ..entry import ended_in_one_line
from . import figure, gap

PROG = "python -m experiments.tree"


def main(argv: list[str] | None = None) -> None:
    """Solve the trees, write `results.json` and `tree.png`, and print the table."""
    parser = OneLineParser(
        prog=PROG, description="Solves the tree of Theorem 3 exactly, for depth 2 to 6."
    )
    folder = Path("outputs/tree")
    parser.add_argument("--output_dir", type=Path, default=folder, help="folder of the results")
    output_dir = parser.parse_args(argv).output_dir
    with ended_in_one_line(PROG):
        output_dir.mkdir(parents=True, exist_ok=True)
        results = gap.results()
        write_json(output_dir / "results.json", results)
        figure.draw(output_dir / "results.json", output_dir / "tree.png")
    title = "Return within the steps that the adaptive policy needs"
    print_table(title, gap.table_rows(results))
    print(printable(f"In {output_dir}: results.json, tree.png."))


if __name__ == "__main__":
    main()
