"""The child's end: what it answers, what it may use, and that it ends with its parent."""

import json
import os
import resource
import shutil
import subprocess
import sys

import pytest

from barl_trl.graders.processes import ProcessPool

from .grader_processes import cpu_seconds, linux

WORKER = [sys.executable, "-m", "barl_trl.graders.worker", "3"]


def work(*requests: list[str]) -> subprocess.CompletedProcess:
    """One worker, from its first request to its last."""
    return subprocess.run(
        [*WORKER, str(os.getpid())],
        input="".join(json.dumps(request) + "\n" for request in requests),
        capture_output=True,
        text=True,
        timeout=120,
    )


# Requests and replies


def test_one_whose_parent_ended_while_it_started_ends_though_its_input_is_open():
    parent = subprocess.Popen(["true"])
    parent.wait()
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([*WORKER, str(parent.pid)], **pipes) as child:
        assert child.stdout.readline() == b"ready\n"
        assert child.wait(60) == 0


def test_each_line_is_answered_by_one_and_the_end_of_the_input_is_its_end():
    done = work(
        ["math_verify", r"\log_2 8", "3"],
        ["qwen", "x+1", "1+x"],
        ["qwen", "x+1", "1-x"],
        ["readable", r"\frac{1}{2}", ""],
        ["readable", "!?", ""],
        ["readable", "1", "x" * 200_000],  # more than the pipe holds
        ["math_verify", "½\n\ud800", "4\x00"],  # no character ends the line
    )
    ready, *replies = done.stdout.splitlines()
    assert ready == "ready"
    assert replies == ["equal", "equal", "different", "equal", "different", "equal", "different"]
    assert (done.returncode, done.stderr) == (0, "")


def test_it_ends_at_the_first_request_that_it_does_not_understand():
    done = work(["math_verify", "1", "1"], ["no_such_comparison", "1", "1"], ["qwen", "1", "1"])
    assert done.stdout == "ready\nequal\n"
    assert done.returncode == 1


@linux
def test_one_that_keeps_half_a_gibibyte_says_that_it_is_worn():
    # 2^5000000000 has 625 MB, and what the parser made of the answer is remembered.
    done = work(["math_verify", "5", r"\lfloor 2.0^{5000000000} \rfloor"], ["qwen", "1", "1"])
    assert done.stdout == "ready\ndifferent worn\nequal worn\n"


def test_an_answer_is_one_request_and_no_reply(pool):
    for text in ('2"]\n["math_verify", "1", "1', "equal\n", "\nequal\n", "print('equal')", "\x00"):
        assert pool("math_verify", "1", text) != "equal"
        assert pool("math_verify", "1", "2") == "different"
        assert pool("math_verify", r"\frac{2}{4}", "0.5") == "equal"


# Limits

# In a process of its own: the children of a process are accounted for together. The first bomb
# computes; the second wants 1.1 GB at once, for a number whose digits nobody asked for.
BOMBS = r"""
import json, resource
from pathlib import Path
from barl_trl.graders.processes import ProcessPool

pool = ProcessPool(size=1, cpu_seconds=1, wall_seconds=60)
assert pool("math_verify", "1", "1") == "equal"
outcomes = [
    pool("qwen", "5", "(x+y+z+w+v+u+t+s)^{9999}"),
    pool("math_verify", "5", r"\lfloor 2.0^{9000000000} \rfloor"),
    pool("math_verify", "1", "9^{9^{9}}"),
    pool("math_verify", "1/2", "0.5"),
]
pool.close()
children = resource.getrusage(resource.RUSAGE_CHILDREN)
# Not ru_maxrss: a process starts with that of the one that started it.
own = Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()[0]
print(json.dumps([outcomes, int(own), children.ru_maxrss, children.ru_utime + children.ru_stime]))
"""


@linux
def test_memory_and_cpu_time_of_comparisons_are_bounded():
    done = subprocess.run(
        [sys.executable, "-c", BOMBS], capture_output=True, text=True, check=True, timeout=300
    )
    (*bombs, ordinary), own_kib, kib, cpu_seconds = json.loads(done.stdout)
    assert "equal" not in bombs
    assert bombs[-1] == "timeout"
    assert ordinary == "equal"
    assert kib < 2**20 + 2**16, "1 GiB, and some slack"
    assert own_kib < 2**18
    assert cpu_seconds < 3 * 2 + 30, "up to 1 s over the limit each, and the start-ups"


COMPARES = r"""
import sys
from barl_trl.graders.processes import ProcessPool

pool = ProcessPool(size=1, cpu_seconds=int(sys.argv[1]))
pool.start()
print(*[pool("math_verify", "1/2", answer) for answer in ("0.5", "9^{9^{9}}", "0.5")])
"""


def compare_under(*limits: str, cpu_seconds: int = 1) -> subprocess.CompletedProcess:
    """Comparisons under limits, by a process without the right to raise them."""
    unprivileged = ["setpriv", "--bounding-set=-sys_resource", "--inh-caps=-sys_resource"]
    command = ["prlimit", *limits, *(unprivileged if os.geteuid() == 0 else [])]
    for tool in {*command} & {"prlimit", "setpriv"}:
        if shutil.which(tool) is None:
            pytest.skip(f"needs {tool}")
    command += [sys.executable, "-c", COMPARES, str(cpu_seconds)]
    return subprocess.run(command, capture_output=True, text=True, timeout=300)


def test_hard_limits_that_may_not_be_raised_change_no_verdict():
    done = compare_under("--cpu=60:60", "--as=900000000:900000000", "--core=0:0")
    assert (done.stdout, done.stderr) == ("equal timeout equal\n", "")


def test_a_hard_limit_too_low_for_a_comparison_is_an_error_at_the_start():
    done = compare_under("--cpu=30:30", cpu_seconds=30)
    assert "`ulimit -t` must leave a comparison 30 s, got 30 s: raise it.\n" in done.stderr
    assert "RuntimeError: the grader's process must start, got none that answers" in done.stderr


@linux
def test_a_hard_limit_too_low_for_its_libraries_is_an_error_at_the_start():
    limited = r"""
import resource
from pathlib import Path
from barl_trl.graders.processes import ProcessPool

pages = int(Path("/proc/self/statm").read_text().split()[0])
resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + (8 << 20),) * 2)
ProcessPool().start()
"""
    done = subprocess.run([sys.executable, "-c", limited], capture_output=True, text=True)
    assert "RuntimeError: the grader's process must start, got none that answers" in done.stderr


@linux
def test_one_is_replaced_before_a_hard_limit_on_its_cpu_time_ends_it():
    pool = ProcessPool(size=1, cpu_seconds=1)
    pool.start()
    pid = pool._idle[0].child.pid
    limit = int(cpu_seconds(pid)) + 2
    resource.prlimit(pid, resource.RLIMIT_CPU, (limit, limit))
    assert pool("math_verify", "1/2", "0.5") == "equal"
    assert pid not in [process.child.pid for process in pool._idle]
    assert pool("math_verify", "1/2", "0.5") == "equal"
    pool.close()


def test_a_large_parent_makes_no_process_look_worn_out():
    # A process starts with the peak memory of the one that started it.
    held = b"x" * (600 << 20)
    pool = ProcessPool(size=1)
    processes = []
    for _ in range(3):
        assert pool("math_verify", "1/2", "0.5") == "equal"
        processes.append(pool._idle[0].child.pid)
    pool.close()
    assert len(set(processes)) == 1
    assert len(held) == 600 << 20
