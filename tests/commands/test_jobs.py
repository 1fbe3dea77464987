"""Jobs in processes of their own: what is missing is made, what is there is kept."""

import json
import os
import signal
import subprocess
import sys
import threading
import time

import psutil
import pytest
import torch
from barl_trl.commands.shell.interruption import Interrupted, raised
from barl_trl.commands.shell.jobs import FileJob, run_jobs
from barl_trl.report.json_files import write_json

from ..paths import ROOT


def say(path, *arguments):
    said = {"arguments": arguments, "process": os.getpid(), "threads": torch.get_num_threads()}
    write_json(path, said)


def fail(path):
    raise ValueError(f"no luck with {path.name}")


def linger(path):
    time.sleep(0.3)
    write_json(path, None)


def last_for_ever(path):
    write_json(path, os.getpid())
    time.sleep(1000)


def start_others(path, listens):
    """A process and its own; it may not listen to SIGTERM."""
    trap = "" if listens else "trap '' TERM; "
    command = f"{trap}sleep {path.stem} & touch {path.with_suffix('.started')}; wait; wait"
    subprocess.run(["sh", "-c", command], check=False)


def tell_when(*started):
    """Sends SIGTERM to this process when files are there."""

    def tell():
        while not all(path.exists() for path in started):
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=tell).start()


def test_an_interruption_ends_the_processes(tmp_path):
    job = FileJob(tmp_path / "process.json", last_for_ever, ())
    tell_when(job.path)
    with raised(), pytest.raises(Interrupted):
        run_jobs([job], lambda: None)
    assert not psutil.pid_exists(json.loads(job.path.read_text()))


def test_sigterm_leaves_none_of_what_jobs_started(tmp_path):
    """Not even one that does not listen, nor its own."""
    numbers = [f"100{n}.{os.getpid()}" for n in range(2)]
    jobs = [
        FileJob(tmp_path / f"{number}.json", start_others, (listens,))
        for number, listens in zip(numbers, (True, False), strict=True)
    ]
    tell_when(*(job.path.with_suffix(".started") for job in jobs))
    with raised(), pytest.raises(Interrupted):
        run_jobs(jobs, lambda: None, at_once=2, grace=0.5)
    processes = psutil.process_iter(["cmdline"])
    killed = [process for process in processes if {*numbers} & {*(process.info["cmdline"] or ())}]
    assert not psutil.wait_procs(killed, timeout=60)[1]  # a busy kernel ends them a little later


ORPHANS = """
import sys
from pathlib import Path
from barl_trl.commands.shell.jobs import FileJob, run_jobs
from barl_trl.report.json_files import write_json
from tests.commands.test_jobs import start_others
run_jobs([FileJob(Path(sys.argv[1]), start_others, (True,))], lambda: None)
"""


@pytest.mark.slow
def test_jobs_end_where_what_started_them_was_killed(tmp_path):
    path = tmp_path / f"1002.{os.getpid()}.json"
    command = [sys.executable, "-c", ORPHANS, str(path)]
    parent = subprocess.Popen(command, cwd=ROOT)
    while not path.with_suffix(".started").exists():
        assert parent.poll() is None
        time.sleep(0.05)
    orphans = psutil.Process(parent.pid).children(recursive=True)  # workers, too
    assert path.stem in [word for process in orphans for word in process.cmdline()]
    parent.kill()
    parent.wait()
    assert not psutil.wait_procs(orphans, timeout=60)[1]


def all_said(jobs):
    advanced = []
    run_jobs(jobs, lambda: advanced.append(None))
    assert len(advanced) == len(jobs)
    return [json.loads(job.path.read_text()) for job in jobs]


def test_missing_files_are_made_and_others_kept_also_where_a_job_fails(tmp_path):
    folder = tmp_path / "search"
    jobs = [FileJob(folder / f"{n}.json", say, (n, "x")) for n in range(2)]
    folder.mkdir()
    jobs[0].path.write_text('{"from": "last time"}')
    jobs[1].path.with_name(f"{jobs[1].path.name}.partial").write_text("killed on the way")

    kept, made = all_said(jobs)
    assert kept == {"from": "last time"}
    assert made["arguments"] == [1, "x"]
    assert made["threads"] == 1
    assert made["process"] != os.getpid()
    assert {path.name for path in folder.iterdir()} == {"0.json", "1.json"}
    assert all_said(jobs) == [kept, made]

    jobs[1].path.unlink()
    number = 20 * len(os.sched_getaffinity(0))
    many = [FileJob(tmp_path / "many" / f"{n}.json", linger, ()) for n in range(number)]
    with pytest.raises(ValueError, match=r"no luck with b\.json"):
        run_jobs([FileJob(tmp_path / "a" / "b.json", fail, ()), *jobs, *many], lambda: None)
    assert sum(job.path.exists() for job in many) < number / 2  # nobody waits for the others
    untouched, again = all_said(jobs)
    assert untouched == kept
    assert again["process"] != made["process"]
    assert not list((tmp_path / "a").iterdir())


def test_without_jobs_nothing_is_done():
    assert all_said([]) == []
