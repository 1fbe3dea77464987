"""The processes that can be killed: real ones."""

import os
import signal
import subprocess
import sys
import threading

import pytest

from barl_trl.graders.processes import ProcessPool

HANGS = "9^{9^{9}}"


@pytest.fixture
def pool():
    pool = ProcessPool(size=2, cpu_seconds=1, wall_seconds=20)
    yield pool
    pool.close()


@pytest.mark.parametrize("off_main_thread", [False, True])
def test_a_comparison_that_hangs_is_a_timeout_and_the_next_one_works(pool, off_main_thread):
    outcomes = []

    def compare():
        outcomes.append(pool("math_verify", "1", HANGS))
        outcomes.append(pool("math_verify", "1/2", "0.5"))

    if off_main_thread:
        thread = threading.Thread(target=compare)
        thread.start()
        thread.join(60)
    else:
        compare()
    assert outcomes == ["timeout", "equal"]


def test_a_process_that_only_waits_is_killed_at_the_wall_time():
    pool = ProcessPool(size=1, wall_seconds=0.5)
    assert pool("math_verify", "1/2", "0.5") == "equal"
    for process in pool._idle:
        os.kill(process.child.pid, signal.SIGSTOP)
    assert pool("math_verify", "1/2", "0.5") == "timeout"
    pool.close()


def test_a_process_that_dies_is_a_crash(pool):
    assert pool("math_verify", "1/2", "0.5") == "equal"
    assert pool("no_such_comparison", "1", "1") == "crash"
    assert pool("math_verify", "1/2", "0.5") == "equal"


def test_a_process_that_died_while_idle_is_replaced(pool):
    assert pool("math_verify", "1/2", "0.5") == "equal"
    for process in pool._idle:
        process.child.kill()
        process.child.wait()
    assert pool("math_verify", "1/2", "0.5") == "equal"


def test_a_spare_is_kept_warm_and_no_more_processes_than_that(pool):
    threads = [
        threading.Thread(target=pool, args=("math_verify", rf"{n}\pi", rf"\pi {n}"))
        for n in range(2, 10)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(pool._all) == len(pool._idle) == 3


def test_processes_are_replaced_after_so_many_comparisons():
    pool = ProcessPool(size=1, recycle_after=2)
    used = set()
    for _ in range(4):
        assert pool("math_verify", "1/2", "0.5") == "equal"
        used |= {process.child.pid for process in pool._all}
    assert len(used) >= 3
    pool.close()


def test_without_a_process_that_starts_the_error_says_how_to_find_out_why(monkeypatch):
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(
        RuntimeError, match=r"grader's process must start, got none.*: run `/bin/false"
    ):
        ProcessPool()("math_verify", "1", "1")


def test_the_cores_are_shared_among_the_processes_of_a_launch(monkeypatch):
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "1000")
    assert ProcessPool().size == 1


def run(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)


def test_importing_the_graders_starts_no_process_and_imports_no_library():
    code = (
        "import sys\nfrom barl_trl import hypotheses\n"
        "from barl_trl.graders.processes import compare\n"
        "assert not compare._all\nassert hypotheses.answers_equivalent('1/2', '0.5')\n"
        "assert not compare._all\n"
        "print([m for m in ('trl', 'transformers', 'torch', 'sympy') if m in sys.modules])"
    )
    done = run(code)
    assert done.stdout.strip() == "[]"
    assert done.stderr == ""


def test_a_large_parent_makes_no_process_look_worn_out():
    code = (
        "from barl_trl.graders.processes import ProcessPool\n"
        "held = bytearray(700 << 20)\nheld[:] = b'x' * len(held)\n"
        "pool = ProcessPool(size=1)\n"
        "print([pool('math_verify', '1/2', '0.5') for _ in range(3)], len(held))\npool.close()"
    )
    done = run(code)
    assert done.stdout.startswith("['equal', 'equal', 'equal']")
