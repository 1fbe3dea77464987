"""`python -m experiments.triplets` as users start it."""

from barl_trl.report.json_files import read_json
from experiments.triplets.training import ARMS

from ..running import experiment


def test_a_run_trains_every_arm_and_what_is_done_is_skipped(tmp_path):
    options = ("--quick", "--seeds", 1, "--output_dir", tmp_path)
    done = experiment("triplets", *options)
    assert done.returncode == 0, done.stderr
    assert all(arm.title.split(",")[0] in done.stdout for arm in ARMS.values())
    files = sorted((tmp_path / "quick").iterdir())
    assert [file.name for file in files] == sorted(f"{name}-0.json" for name in ARMS)
    for file in files:
        records = read_json(file)
        assert [record["batches"] for record in records] == [0, 1, 2]
        assert all(0 <= record["unseen_accuracy"] <= 1 for record in records)
    times = [file.stat().st_mtime_ns for file in files]
    again = experiment("triplets", *options)
    assert _table(again.stdout) == _table(done.stdout)
    assert [file.stat().st_mtime_ns for file in files] == times  # nothing is trained again


def _table(shown):
    return [line for line in shown.splitlines() if line.startswith("│")]
