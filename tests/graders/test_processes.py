"""The processes that can be killed: real ones."""

import contextlib
import json
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
import torch.multiprocessing
from torch import distributed
from torch.utils.data import DataLoader

from barl_trl.graders import GRADERS
from barl_trl.graders.processes import ProcessPool

from ..paths import ROOT
from .grader_processes import cpu_seconds, eventually, grader_processes
from .hostile_texts import HANGS, MILLION, TRUTH


@pytest.fixture
def own_processes():
    """Those that this test's pools started."""
    before = set(grader_processes(os.getpid()))
    return lambda: [p for p in grader_processes(os.getpid()) if p not in before]


def in_thread(work: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread


# A comparison is limited


@pytest.fixture(scope="module")
def hang_on_another_thread(pool):
    """The outcomes of a hang and of what follows it, and how often this thread had its turn."""
    outcomes, turns = [], 0
    comparisons = (("1", HANGS), ("1/2", "0.5"))
    thread = in_thread(lambda: outcomes.extend(pool(*pair) for pair in comparisons))
    while thread.is_alive() and turns < 6000:
        time.sleep(0.01)
        turns += 1
    return outcomes, turns


@pytest.mark.parametrize("off_main_thread", [False, True])
def test_a_comparison_that_hangs_is_a_timeout_and_the_next_one_works(
    pool, off_main_thread, hang_on_another_thread
):
    outcomes, _ = hang_on_another_thread
    if not off_main_thread:
        outcomes = [pool("1", HANGS), pool("1/2", "0.5")]
    assert outcomes == ["timeout", "equal"]


def test_a_hang_on_another_thread_leaves_this_one_running(hang_on_another_thread):
    _, turns = hang_on_another_thread
    assert turns > 20, "a parser on that thread would hold the interpreter: one"


def test_a_process_that_only_waits_is_killed_at_the_wall_time(pool, monkeypatch):
    assert pool("1/2", "0.5") == "equal"
    monkeypatch.setattr(pool, "_wall_seconds", 0.2)
    waiting = pool._idle[0]
    os.kill(waiting.pid, signal.SIGSTOP)
    assert pool("1/2", "0.5") == "timeout"
    assert waiting.returncode == -signal.SIGKILL


def test_an_answer_of_which_two_processes_die_is_a_crash():
    pool = ProcessPool(size=1, cpu_seconds=60, wall_seconds=60)
    assert pool("1/2", "0.5") == "equal"
    assert pool("5", "-" * 400 + "1") == "crash", "of recursion"
    assert pool("1/2", "0.5") == "equal"
    pool.close()


def test_a_process_that_died_while_idle_is_replaced(pool):
    assert pool("1/2", "0.5") == "equal"
    for process in pool._idle:
        process.kill()
        process.wait()
    assert pool("1/2", "0.5") == "equal"


def test_where_a_process_is_killed_while_it_compares_another_one_compares_again(own_processes):
    pool = ProcessPool(size=1, cpu_seconds=1)
    assert pool("1/2", "0.5") == "equal"
    next_one = pool._idle[0].pid
    used, outcomes = cpu_seconds(next_one), []
    thread = in_thread(lambda: outcomes.append(pool("1", HANGS)))
    assert eventually(lambda: cpu_seconds(next_one) > used + 0.05)
    for process in own_processes():
        os.kill(process.pid, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):  # the pool has noticed already
            os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    thread.join(60)
    assert outcomes == ["timeout"]
    assert pool("1/2", "0.5") == "equal"
    assert len(own_processes()) == 1
    pool.close()


# How many there are


def test_eight_threads_share_two_processes_and_each_gets_its_own_outcome(own_processes):
    pool = ProcessPool(size=2, cpu_seconds=1, wall_seconds=60)
    answers = {f"{n}/7": ("equal" if n % 3 else "different") for n in range(1, 24)} | {
        HANGS: "timeout"
    }
    outcomes, most = {}, []

    def compare(share):
        for answer in share:
            n = answer.partition("/")[0]
            gold = rf"\frac{{{n if answers[answer] == 'equal' else n + '1'}}}{{7}}"
            outcomes[answer] = pool(gold if n.isdigit() else "1", answer)
            most.append(len(own_processes()))

    threads = [in_thread(lambda i=i: compare(list(answers)[i::8])) for i in range(8)]
    for thread in threads:
        thread.join(120)
    assert outcomes == answers
    assert 1 <= len(pool._idle) == len(own_processes()) <= max(most) <= 2
    pool.close()
    assert own_processes() == []


def test_the_cores_are_shared_among_the_processes_of_a_launch(monkeypatch):
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "1000")
    assert ProcessPool().size == 1


def test_a_start_is_one_process_which_then_compares(own_processes):
    pool = ProcessPool(size=2)
    pool.start()
    pool.start()
    (first,) = own_processes()
    assert pool("1/2", "0.5") == "equal"
    assert [process.pid for process in pool._idle] == [first.pid]
    pool.close()


def test_without_a_process_that_starts_the_error_says_how_to_find_out_why(monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(sys, "executable", "/bin/false")
        with pytest.raises(
            RuntimeError, match=r"grader's process must start, got none.*: run `/bin/false"
        ) as error:
            ProcessPool()("1", "1")
    command = str(error.value).split("`")[1].replace("/bin/false", sys.executable)
    assert subprocess.check_output(command, shell=True) == b"ready\n"


def test_importing_the_graders_starts_no_process_and_imports_no_library():
    code = (
        "import sys\nfrom barl_trl import hypotheses\n"
        "from barl_trl.graders.processes import compare\n"
        "assert not compare._idle\nassert hypotheses.answers_equivalent('1/2', '0.5')\n"
        "assert not compare._idle\n"
        "print([m for m in ('trl', 'transformers', 'torch', 'sympy') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
    assert done.stderr == ""


# Nobody is left behind

SCRIPT = r"""
import os, signal, threading, time
from barl_trl.graders import Grader, Verdict, extract_answer
from barl_trl.graders.processes import ProcessPool, compare

def hang(pool):
    assert pool("1/2", "0.5") == "equal"
    print("ready", flush=True)
    return pool("1", "9^{9^{9}}")
"""
INTERRUPTED = "hang(compare)"
INTERRUPTED_WITH_MANY_TO_GO = """
pool = ProcessPool(size=1, cpu_seconds=1)
compare.size = 1  # threads
judge = lambda gold, answer: Verdict(hang(pool) == "equal", "judged")
Grader("own", "1", extract_answer, judge).verify_all((str(n), "") for n in range(60))
"""
RAISING = """
signal.signal(signal.SIGUSR1, lambda *_: 1 / 0)
threading.Thread(target=hang, args=[compare], daemon=True).start()
while True:
    time.sleep(1)
"""
KILLED = "hang(ProcessPool(size=1, cpu_seconds=1))"
KILLED_WITH_A_FORK = """
pool = ProcessPool(size=1, cpu_seconds=1)
pool("1", "1")
if os.fork() == 0:
    time.sleep(120)
    os._exit(0)
hang(pool)
"""


def ctrl_c(process: subprocess.Popen) -> None:
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to the whole group


@pytest.fixture
def start():
    """Start a script and wait until it is in the middle of a comparison."""
    processes = []

    def start(code: str) -> subprocess.Popen:
        process = subprocess.Popen(
            [sys.executable, "-c", SCRIPT + code],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
            # a shell's background job, and so a test run in one, ignores Ctrl-C
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )
        processes.append(process)
        assert process.stdout.readline() == "ready\n"
        first = grader_processes(process.pid)[0].pid  # it has compared, and goes on
        used = cpu_seconds(first)
        assert eventually(lambda: cpu_seconds(first) > used + 0.05)
        return process

    yield start
    for process in processes:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # also what it forked
        process.communicate()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("code", "end"),
    [
        pytest.param(INTERRUPTED, ctrl_c, id="Ctrl-C"),
        pytest.param(INTERRUPTED_WITH_MANY_TO_GO, ctrl_c, id="Ctrl-C with many to go"),
        pytest.param(RAISING, lambda p: p.send_signal(signal.SIGUSR1), id="an uncaught exception"),
        pytest.param(KILLED, subprocess.Popen.kill, id="kill -9"),
        pytest.param(KILLED_WITH_A_FORK, subprocess.Popen.kill, id="kill -9, a fork has the pipes"),
    ],
)
def test_no_grader_process_outlives_its_parent(start, code, end):
    process = start(code)
    graders = set(grader_processes(process.pid))
    assert graders
    end(process)
    process.wait(30)
    assert eventually(lambda: graders.isdisjoint(grader_processes()))


def test_after_ctrl_c_the_next_verdict_is_not_the_interrupted_one(start):
    process = start(
        "try:\n    hang(compare)\nexcept KeyboardInterrupt:\n"
        "    print(compare('1', '2'), compare('1/2', '0.5'))\n"
    )
    ctrl_c(process)
    assert process.communicate(timeout=60)[0] == "different equal\n"
    assert process.returncode == 0


# From wherever it is called

CALLS = [
    ("math_verify", "2e", r"e \cdot 2", True),
    ("math_verify", "2e", r"e \cdot 3", False),
    ("qwen", r"2\sqrt{3}", r"\sqrt{12}", True),
    ("qwen", TRUTH, "(((" * 10 + TRUTH, False),
    ("math_verify", r"3\pi", r"\pi \cdot 3", True),
    ("math_verify", TRUTH, "1" * MILLION, False),
    ("string", "0.5", r"\frac12", True),
    ("math_verify", TRUTH, "4\ud8002", False),
]
EXPECTED = [correct for *_, correct in CALLS]


def call(arguments: tuple[str, str, str, bool]) -> bool:
    name, gold, answer, _ = arguments
    return GRADERS[name].verify(gold, answer).correct


@pytest.fixture
def fresh_graders(monkeypatch):
    """They remember nothing yet, nor do their copies in a forked process."""
    for name, grader in GRADERS.items():
        monkeypatch.setitem(GRADERS, name, pickle.loads(pickle.dumps(grader)))


@pytest.fixture
def others_leave_none(monkeypatch, tmp_path):
    """The graders that this test's other processes start end with them."""
    monkeypatch.setenv("BARL_TEST_MARK", str(tmp_path))
    yield
    assert eventually(lambda: not grader_processes(mark=str(tmp_path)))


def test_from_a_worker_of_a_data_loader(fresh_graders, others_leave_none):
    # A daemonic process: multiprocessing refuses to start children there.
    loader = DataLoader(CALLS, batch_size=None, collate_fn=call, num_workers=1, timeout=120)
    assert list(loader) == EXPECTED


def judge_half(rank: int, folder: Path) -> None:
    meeting_point, patience = f"file://{folder / 'meeting'}", timedelta(seconds=120)
    distributed.init_process_group(
        "gloo", init_method=meeting_point, rank=rank, world_size=2, timeout=patience
    )
    halves = [None, None]
    distributed.all_gather_object(halves, [call(arguments) for arguments in CALLS[rank::2]])
    (folder / str(rank)).write_text(json.dumps(halves))
    distributed.destroy_process_group()


def test_from_two_processes_that_judge_half_each_and_share(
    tmp_path, fresh_graders, others_leave_none
):
    # Forked: torch has been imported already.
    torch.multiprocessing.start_processes(judge_half, (tmp_path,), nprocs=2, start_method="fork")
    for rank in "01":
        halves = json.loads((tmp_path / rank).read_text())
        assert halves == [EXPECTED[0::2], EXPECTED[1::2]]


# What is installed beside them

COMPARES = r"from barl_trl.graders import verify; print(bool(verify('2e', r'e\cdot 2')))"


def python(path: Path, *arguments: str) -> subprocess.CompletedProcess:
    environment = {"PYTHONPATH": f"{ROOT / 'src'}:{path}", "PATH": ""}
    return subprocess.run(
        [sys.executable, *arguments], env=environment, capture_output=True, text=True
    )


def test_an_importable_gmpy2_is_not_used(tmp_path):
    (tmp_path / "gmpy2.py").write_text("raise SystemExit('gmpy2 was imported')")
    done = python(tmp_path, "-c", COMPARES)
    assert (done.stdout, done.stderr) == ("True\n", "")
