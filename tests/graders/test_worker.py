"""The child's end: what it answers, what it may use, and that it ends with its parent."""

import json
import os
import resource
import shutil
import subprocess
import sys

import pytest

from barl_trl.graders.processes import ProcessPool

from ..paths import ROOT
from .grader_processes import cpu_seconds, linux

WORKER = [sys.executable, "-m", "barl_trl.graders.worker", "1"]


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


@pytest.mark.slow
def test_one_whose_parent_ended_while_it_started_ends_though_its_input_is_open():
    parent = subprocess.Popen(["true"])
    parent.wait()
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([*WORKER, str(parent.pid)], **pipes) as child:
        assert child.stdout.readline() == b"ready\n"
        assert child.wait(60) == 0


def test_each_line_is_answered_by_one_and_the_end_of_the_input_is_its_end():
    done = work(
        [r"\log_2 8", "3"],
        ["x+1", "1+x"],
        ["x+1", "1-x"],
        [r"\sqrt{2}", "1.4142", 1e-3, 1.0],
        ["!?", "!?"],
        ["1", "?" * 200_000],  # more than the pipe holds
        ["½\n\ud800", "4\x00"],  # no character ends the line
    )
    ready, *replies = done.stdout.splitlines()
    assert ready == "ready"
    assert replies == ["equal", "equal", "different", "equal", *["different"] * 3]
    assert (done.returncode, done.stderr) == (0, "")


def test_it_ends_at_the_first_request_that_it_does_not_understand():
    done = work(["1", "1"], ["1"], ["1", "1"])
    assert done.stdout == "ready\nequal\n"
    assert done.returncode == 1


def test_under_a_runtime_that_cannot_read_a_percent_sign_it_says_which_is_needed(tmp_path):
    # What the parser lacks under antlr 4.9 and 4.11
    (tmp_path / "sitecustomize.py").write_text(
        "from latex2sympy2_extended.antlr_parser import PSParser as p\ndel p.AtomContext.FUNC_GAMMA"
    )
    done = subprocess.run(
        [*WORKER, str(os.getpid())],
        env=os.environ | {"PYTHONPATH": f"{ROOT / 'src'}:{tmp_path}"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    message = "antlr4-python3-runtime must be 4.13.2: pip install antlr4-python3-runtime==4.13.2\n"
    assert (done.stdout, done.stderr, done.returncode) == ("", message, 1)


def test_an_answer_is_one_request_and_no_reply(pool):
    for text in ('2"]\n["1", "1', "equal\n", "\nequal\n", "print('equal')", "\x00"):
        assert pool("1", text) != "equal"
        assert pool("1", "2") == "different"
        assert pool(r"\frac{2}{4}", "0.5") == "equal"


# Limits

# In a process of its own: the children of a process are accounted for together. The first bomb
# computes; the second wants 1.1 GB at once, for a number whose digits nobody asked for.
BOMBS = r"""
import json, resource
from pathlib import Path
from barl_trl.graders.processes import ProcessPool

pool = ProcessPool(size=1, cpu_seconds=1, wall_seconds=60)
assert pool("1", "1") == "equal"
outcomes = [
    pool("5", "(x+y+z+w+v+u+t+s)^{9999}"),
    pool("5", r"\lfloor 2.0^{9000000000} \rfloor"),
    pool("1", "9^{9^{9}}"),
    pool("1/2", "0.5"),
]
pool.close()
children = resource.getrusage(resource.RUSAGE_CHILDREN)
# Not ru_maxrss: a process starts with that of the one that started it.
own = Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()[0]
print(json.dumps([outcomes, int(own), children.ru_maxrss, children.ru_utime + children.ru_stime]))
"""


@linux
@pytest.mark.slow
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
    assert cpu_seconds < 6 + 30, "each is tried twice if it crashes, and the start-ups"


COMPARES = r"""
import sys
from barl_trl.graders.processes import ProcessPool

pool = ProcessPool(size=1, cpu_seconds=1)
pool.start()
print(*[pool("1/2", answer) for answer in ("0.5", "9^{9^{9}}", "0.5")])
"""


def compare_under(*limits: str) -> subprocess.CompletedProcess:
    """Comparisons under limits, by a process without the right to raise them."""
    unprivileged = ["setpriv", "--bounding-set=-sys_resource", "--inh-caps=-sys_resource"]
    command = ["prlimit", *limits, *(unprivileged if os.geteuid() == 0 else [])]
    for tool in {*command} & {"prlimit", "setpriv"}:
        if shutil.which(tool) is None:
            pytest.skip(f"needs {tool}")
    command += [sys.executable, "-c", COMPARES]
    return subprocess.run(command, capture_output=True, text=True, timeout=300)


def test_hard_limits_that_may_not_be_raised_change_no_verdict():
    done = compare_under("--cpu=60:60", "--as=900000000:900000000", "--core=0:0")
    assert (done.stdout, done.stderr) == ("equal timeout equal\n", "")


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
def test_another_one_compares_again_when_a_hard_limit_on_cpu_time_ends_one():
    pool = ProcessPool(size=1)
    pool.start()
    pid = pool._idle[0].pid
    assert cpu_seconds(pid) > 0.1, "its start"
    resource.prlimit(pid, resource.RLIMIT_CPU, (0, 0))
    assert pool("1/2", "0.5") == "equal"
    assert [process.pid for process in pool._idle] != [pid]
    pool.close()
