"""Processes that have torch, TRL and barl_trl imported when they start.

`[*PRELOADED, MODULE, ...]` does what `[sys.executable, "-m", MODULE, ...]` does, and with the path
of a script what `[sys.executable, SCRIPT, ...]` does: it has the caller's environment, folder and
standard streams, and its exit status. But the process is forked from a server that imports once for
all. Settings that are read from the environment at import (the Hub's address, say) are the
server's: they need a `server` of their own.
"""

import contextlib
import gc
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import tempfile
from importlib import import_module
from multiprocessing import get_context
from multiprocessing.connection import wait
from pathlib import Path

ROOT = Path(__file__).parents[1]
PRELOADED = [sys.executable, "-S", __file__]
ADDRESS = "BARL_TESTS_PRELOADED"
MODULES = [
    *("accelerate.utils.launch", "torch.distributed.run", "torch.distributed.fsdp"),
    *("datasets", "hypothesis", "pandas", "trl", "transformers.models.qwen2"),
    *("barl_trl.commands.train", "barl_trl.commands.evaluate", "barl_trl.commands.data"),
]


@contextlib.contextmanager
def server(**environment):
    """The variables under which [`PRELOADED`] starts processes; nothing is imported before one."""
    with tempfile.TemporaryDirectory() as folder:
        address = {ADDRESS: f"{folder}/socket"}
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
            listener.bind(address[ADDRESS])
            listener.listen()
            process = subprocess.Popen(
                [sys.executable, "-m", "tests.preloaded", "--serve", str(listener.fileno())],
                cwd=ROOT,
                env=os.environ | environment,
                stdin=subprocess.PIPE,  # closed when the tests end, however they do
                pass_fds=[listener.fileno()],
            )
        yield address
        process.communicate()


def serve(listener):
    while listener in select.select([listener, sys.stdin], [], [])[0]:
        for module in MODULES:
            import_module(module)
        gc.freeze()  # nor are its pages copied by the garbage collection of each process
        connection, _ = listener.accept()
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        if not os.fork():
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            supervise(connection)
            os._exit(0)


def supervise(connection):
    """Runs what is asked for; kills it where the asking process ends."""
    message, streams, *_ = socket.recv_fds(connection, 1 << 20, 3)
    process = get_context("fork").Process(target=run, args=[streams], kwargs=json.loads(message))
    process.start()
    if connection in wait([process.sentinel, connection]):
        process.kill()
    else:
        process.join()
        connection.send(str(process.exitcode).encode())


def run(streams, arguments, environment, folder):
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    sys.argv = arguments
    program = arguments[0]
    if program.endswith(".py"):
        sys.path[0] = str(Path(program).parent)
        runpy.run_path(program, run_name="__main__")
    else:
        sys.path[0] = folder
        runpy.run_module(program, run_name="__main__", alter_sys=True)


def ask(arguments) -> int:
    request = {"arguments": arguments, "environment": dict(os.environ), "folder": os.getcwd()}
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
        connection.connect(os.environ[ADDRESS])
        socket.send_fds(connection, [json.dumps(request).encode()], [0, 1, 2])
        status = int(connection.recv(16))
    if status < 0:
        os.kill(os.getpid(), -status)
    return status


if __name__ == "__main__":
    if sys.argv[1] == "--serve":
        serve(socket.socket(fileno=int(sys.argv[2])))
    else:
        sys.exit(ask(sys.argv[1:]))
