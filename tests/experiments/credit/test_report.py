"""Parts are run, kept, and put into one report with all others that were run before."""

import pytest

from barl_trl.commands.shell.jobs import FileJob
from barl_trl.report.json_files import read_json, write_json
from experiments.credit.parts import PARTS, Part
from experiments.credit.report import SUMMARY, write


def add(path, number, *before):
    """A job: the sum of a number and those in files of the stage before."""
    write_json(path, number + sum(map(read_json, before)))


def jobs(folder, seeds):
    first = [folder / f"{seed}.json" for seed in range(seeds)]
    late = [FileJob(folder / "sum.json", add, (100, *first))]
    return [[FileJob(path, add, (3,)) for path in first], late]


def section(folder, seeds):
    found = read_json(folder / "sum.json")
    table = {"caption": f"{seeds} seeds", "columns": ["what", "sum"], "rows": [["all", str(found)]]}
    return {"title": f"Part {folder.name}", "text": "Made up.", "tables": [table]}


@pytest.fixture(autouse=True)
def _parts(monkeypatch):
    for letter in "XY":
        monkeypatch.setitem(PARTS, letter, Part(f"Part {letter}", 1, jobs, section))


@pytest.fixture
def done(tmp_path):
    """All files of part X are there already, with 3 seeds and another sum."""
    for stage in jobs(tmp_path / "X", 3):
        for job in stage:
            job.path.parent.mkdir(exist_ok=True)
            job.path.write_text("7")
    return tmp_path


def rows_of(folder):
    _, *sections = (folder / "report.md").read_text().split("\n## ")
    blocks = [section.strip().split("\n\n") for section in sections]
    for *_, table in blocks:
        assert table.startswith("| what | sum |\n| --- | --- |\n")
    return {
        title: (caption.strip("*"), table.splitlines()[-1].split()[-2])
        for title, _, caption, table in blocks
    }


def test_stages_follow_one_another_and_the_report_has_the_parts_of_other_times(done, capsys):
    assert write(done, "X", 3) == done / "report.md"
    assert rows_of(done) == {"Part X": ("3 seeds", "7")}
    write(done, "Y", None)
    assert rows_of(done) == {"Part X": ("3 seeds", "7"), "Part Y": ("1 seeds", "103")}
    report = (done / "report.md").read_text()
    assert report.index(SUMMARY) < report.index("Part X") < report.index("Part Y")
    printed = capsys.readouterr().out
    assert "Part Y: " in printed
    assert "4/4" in printed
    assert "2/2" in printed


def test_what_is_there_is_kept_and_its_section_made_again(done):
    write(done, "X", 3)
    times = {path: path.stat().st_mtime_ns for path in (done / "X").glob("?.json")}
    (done / "X" / "sum.json").write_text("8")
    write(done, "X", None)
    assert rows_of(done) == {"Part X": ("1 seeds", "8")}
    assert times == {path: path.stat().st_mtime_ns for path in (done / "X").glob("?.json")}


def test_a_part_that_fails_leaves_the_report_as_it_was(done, monkeypatch):
    def stop(folder, seeds):
        raise ValueError("nothing to say.")

    write(done, "X", 3)
    before = (done / "report.md").read_text()
    monkeypatch.setitem(PARTS, "X", PARTS["X"]._replace(section=stop))
    with pytest.raises(ValueError, match="nothing to say"):
        write(done, "X", 3)
    assert (done / "report.md").read_text() == before
