"""The processes that can be killed: real ones."""

import contextlib
import json
import os
import pickle
import resource
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable

import pytest
import yaml
from torch.utils.data import DataLoader

from barl_trl.graders import GRADERS, grader, verify
from barl_trl.graders.processes import ProcessPool, compare

from .grader_processes import cpu_seconds, eventually, grader_processes, linux
from .hostile_texts import HANGS, HERE, MILLION, TRUTH

SCRIPTS = yaml.safe_load((HERE / "scripts.yaml").read_text())


@pytest.fixture
def own_processes():
    """Those that this test's pools started."""
    before = set(grader_processes(os.getpid()))
    return lambda: [p for p in grader_processes(os.getpid()) if p not in before]


def in_thread(work: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread


def test_a_hang_on_another_thread_is_a_timeout_and_leaves_this_one_running(pool):
    outcomes, turns = [], 0
    comparisons = (("1", HANGS), ("1/2", "0.5"))
    thread = in_thread(lambda: outcomes.extend(pool(*pair) for pair in comparisons))
    while thread.is_alive() and turns < 6000:
        time.sleep(0.01)
        turns += 1
    assert outcomes == ["timeout", "equal"]
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


def test_when_its_time_is_over_nothing_is_compared_nor_remembered():
    pair = "x+0.5", r"\frac{1}{2}+x"
    with compare.within(0.0):
        assert verify(*pair) == (False, "left out")
        assert verify("0.5", "1/2"), "no process is needed"
    assert verify(*pair) == (True, "parser")
    with compare.within(60.0):
        assert verify("x+y", "y+x")


def test_eight_threads_share_two_processes_and_each_gets_its_own_outcome(own_processes):
    pool = ProcessPool(size=2, cpu_seconds=1, wall_seconds=60)
    answers = {f"{n}/7": ("equal" if n % 3 else "different") for n in range(1, 24)}
    answers |= {HANGS: "timeout"}
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


def test_a_process_that_cannot_start_is_an_error_before_training(monkeypatch):
    monkeypatch.setattr(grader, "compare", ProcessPool())
    monkeypatch.setattr(sys, "executable", "/bin/false")
    for name in ("math_verify", "qwen"):
        with pytest.raises(RuntimeError, match="no grader's process answers"):
            pickle.loads(pickle.dumps(GRADERS[name])).start()
    GRADERS["string"].start()


def test_importing_the_graders_starts_no_process_and_imports_no_library():
    code = (
        "import sys\nfrom barl_trl import hypotheses\n"
        "from barl_trl.graders.processes import compare\n"
        "assert hypotheses.answers_equivalent('1/2', '0.5') and not compare._idle\n"
        "print([m for m in ('trl', 'transformers', 'torch', 'sympy') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("[]\n", "")


def ctrl_c(process: subprocess.Popen) -> None:
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to the whole group


@pytest.fixture
def start():
    """Start a script and wait until it is in the middle of a comparison."""
    processes = []

    def start(code: str) -> subprocess.Popen:
        process = subprocess.Popen(
            [sys.executable, "-c", SCRIPTS["hang"] + code],
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
        *[("hang(compare)", ctrl_c), (SCRIPTS["many to go"], ctrl_c)],
        (SCRIPTS["raising"], lambda process: process.send_signal(signal.SIGUSR1)),
        ("hang(ProcessPool(size=1, cpu_seconds=1))", subprocess.Popen.kill),
        (SCRIPTS["fork"], subprocess.Popen.kill),
    ],
    ids=["Ctrl-C", "Ctrl-C with many to go", "exception", "kill -9", "kill -9, a fork has pipes"],
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
    *[("math_verify", "2e", r"e \cdot 2", True), ("math_verify", "2e", r"e \cdot 3", False)],
    *[("qwen", r"2\sqrt{3}", r"\sqrt{12}", True), ("qwen", TRUTH, "(((" * 10 + TRUTH, False)],
    *[("math_verify", r"3\pi", r"\pi \cdot 3", True), ("math_verify", TRUTH, "1" * MILLION, False)],
    *[("string", "0.5", r"\frac12", True), ("math_verify", TRUTH, "4\ud8002", False)],
]
EXPECTED = [correct for *_, correct in CALLS]


def call(arguments: tuple[str, str, str, bool]) -> bool:
    name, gold, answer, _ = arguments
    return GRADERS[name].verify(gold, answer).correct


@pytest.fixture
def fresh_graders(monkeypatch):
    """They remember nothing yet, nor do their copies in a forked process."""
    for name, one in GRADERS.items():
        monkeypatch.setitem(GRADERS, name, pickle.loads(pickle.dumps(one)))


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


# The child's end

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


def test_an_answer_is_one_request_and_no_reply(pool):
    for text in ('2"]\n["1", "1', "equal\n", "\nequal\n", "print('equal')", "\x00"):
        assert pool("1", text) != "equal"
        assert pool("1", "2") == "different"
        assert pool(r"\frac{2}{4}", "0.5") == "equal"


# In a process of its own: the children of a process are accounted for together. The first bomb
# computes; the second wants 1.1 GB at once, for a number whose digits nobody asked for.


@linux
@pytest.mark.slow
def test_memory_and_cpu_time_of_comparisons_are_bounded():
    command, options = [sys.executable, "-c", SCRIPTS["bombs"]], {"check": True, "timeout": 300}
    done = subprocess.run(command, capture_output=True, text=True, **options)
    (*bombs, ordinary), own_kib, kib, cpu_seconds = json.loads(done.stdout)
    assert "equal" not in bombs and bombs[-1] == "timeout" and ordinary == "equal"
    assert kib < 2**20 + 2**16, "1 GiB, and some slack"
    assert own_kib < 2**18
    assert cpu_seconds < 6 + 30, "each is tried twice if it crashes, and the start-ups"


def compare_under(*limits: str) -> subprocess.CompletedProcess:
    """Comparisons under limits, by a process without the right to raise them."""
    unprivileged = ["setpriv", "--bounding-set=-sys_resource", "--inh-caps=-sys_resource"]
    command = ["prlimit", *limits, *(unprivileged if os.geteuid() == 0 else [])]
    for tool in {*command} & {"prlimit", "setpriv"}:
        if shutil.which(tool) is None:
            pytest.skip(f"needs {tool}")
    command += [sys.executable, "-c", SCRIPTS["compares"]]
    return subprocess.run(command, capture_output=True, text=True, timeout=300)


def test_hard_limits_that_may_not_be_raised_change_no_verdict():
    done = compare_under("--cpu=60:60", "--as=900000000:900000000", "--core=0:0")
    assert (done.stdout, done.stderr) == ("equal timeout equal\n", "")


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
