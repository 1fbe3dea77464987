r"""Whether a run that is killed again and again reaches the parameters of an undisturbed one.

`OMP_NUM_THREADS=1 python benchmarks/soak.py [--quick] [--seed 0] [--json FILE]` prints a Markdown
table, and fails if anything is not as it should be. The demo's model is trained twice with the same
settings, through `barl train`: once undisturbed, once with attempts that are ended on the way, each
followed by one with `--resume_from_checkpoint auto`. Checkpoints lie every 3 steps, every second
one in the middle of a rollout batch. An attempt is ended by

- SIGKILL at a random time,
- SIGKILL when a file of a checkpoint appears, each file in turn,
- SIGTERM or SIGINT (Ctrl-C) at a random time, every second one with `--save_on_interrupt`,
- a full disk: a small file system that is filled up (where mounting is allowed);

and, on two processes with DDP, by SIGKILL of one rank, and by SIGSTOP of one rank, which the other
one waits for until a time-out. After each attempt no process of it may be left.
"""

import argparse
import json
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import time
import uuid
from collections import Counter
from collections.abc import Callable
from datetime import date, timedelta
from importlib import metadata
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import psutil
import torch
import torch.distributed as dist
from safetensors.torch import load_file

from barl_trl import cli
from barl_trl.synthetic.search import TINY_MODEL_DIR

ROOT = Path(__file__).parents[1]
TAG = "BARL_SOAK"
FILES = (  # of a checkpoint, in the order of their writing
    *("config.json", "model.safetensors", "training_args.bin", "optimizer.pt", "scheduler.pt"),
    *("rng_state.pth", "rollouts_0_of_1.pt", "trainer_state.json"),
)
DISK = 96 * 2**20
FROZEN = 20  # seconds that a rank waits for another one
SETTINGS = {
    "model_name_or_path": TINY_MODEL_DIR,
    "prompt_template": "{problem}\n",
    "dataset_name": ROOT / "examples" / "search.jsonl",
    "dataset_train_split": "train[:40]",
    "reward_funcs": ["accuracy_reward", "soak.heartbeat"],
    "use_cpu": True,
    "bf16": False,
    "steps_per_generation": 2,
    "num_generations": 4,
    "max_completion_length": 24,
    "step_size": 8,
    "save_steps": 3,
    "save_total_limit": 2,
    "learning_rate": 1e-4,
    "disable_tqdm": True,
}


def heartbeat(prompts, trainer_state, **_):
    """A reward of 0 that notes the step and the memory of its process."""
    if dist.is_initialized():  # transformers hands `ddp_timeout` on for accelerators only
        dist.distributed_c10d._set_pg_timeout(timedelta(seconds=FROZEN))
    if os.environ.get("RANK", "0") == "0":
        file = Path(os.environ["HEARTBEAT"])
        memory = psutil.Process().memory_info().rss
        with file.open("a", encoding="utf-8") as notes:
            notes.write(f"{trainer_state.global_step} {memory}\n")
    return [0.0] * len(prompts)


def beats(file: Path) -> list[tuple[int, int]]:
    """Return step and memory at each heartbeat."""
    lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    pairs = [line.split() for line in lines]
    return [(int(pair[0]), int(pair[1])) for pair in pairs if len(pair) == 2]


def options(output_dir: Path, **settings: object) -> list[str]:
    """Return the command line of a training."""
    words = ["train"]
    for name, value in {**SETTINGS, "output_dir": output_dir, **settings}.items():
        words += [f"--{name}", *map(str, value if isinstance(value, list) else [value])]
    return words


def _attempt(argv: list[str], log: Path, notes: Path) -> None:
    """Run `barl` in this process, with its output in a file; end as the command would."""
    with log.open("w", encoding="utf-8") as output:
        os.dup2(output.fileno(), 1)
        os.dup2(output.fileno(), 2)
    os.environ["HEARTBEAT"] = str(notes)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    torch.set_num_threads(1)
    try:
        cli.main(argv)
    except KeyboardInterrupt:  # the interpreter would end so; multiprocessing does not
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        signal.raise_signal(signal.SIGINT)


def tagged() -> set[int]:
    """Return the processes of this soak, but for the one that runs it."""
    found = set()
    for process in psutil.process_iter():
        try:
            is_ours = process.environ().get(TAG) == os.environ[TAG]
            if is_ours and process.status() != psutil.STATUS_ZOMBIE:
                found.add(process.pid)
        except psutil.Error:
            pass
    return found - {os.getpid()}


class Soak:
    """The attempts of a disturbed run, and what became of them."""

    def __init__(self, folder: Path, output_dir: Path, steps: int, seed: int):
        self.folder, self.output_dir, self.steps = folder, output_dir, steps
        self.random = random.Random(seed)
        self.context = multiprocessing.get_context("forkserver")
        self.context.set_forkserver_preload(["barl_trl.commands.train.run"])
        self.counts: Counter[str] = Counter()
        self.faults: list[str] = []
        self.number, self.passed_over, self.memory = 0, 0, 0
        self.servers: set[int] = set()
        self.stride = 1

    def start(self, output_dir: Path, **settings: object) -> tuple[Any, Path, Path]:
        """Start an attempt; return its process, its log and its heartbeat."""
        self.number += 1
        log, notes = (self.folder / f"{self.number}.{kind}" for kind in ("log", "beats"))
        argv = options(output_dir, max_steps=self.steps, per_device_train_batch_size=4, **settings)
        process = self.context.Process(target=_attempt, args=(argv, log, notes))
        process.start()
        return process, log, notes

    def undisturbed(self) -> list[tuple[int, int]]:
        """Train without disturbance; return its heartbeat."""
        process, log, notes = self.start(self.folder / "whole")
        process.join()
        if process.exitcode:
            sys.exit(log.read_text(encoding="utf-8"))
        self.servers = tagged()
        return beats(notes)

    def disturb(self, kind: str, place: int) -> bool:
        """Make an attempt, and end it; return whether it came to that."""
        is_saved = kind in ("SIGTERM", "SIGINT") and place % 2 == 1
        process, log, notes = self.start(
            self.output_dir, resume_from_checkpoint="auto", save_on_interrupt=is_saved
        )
        start, steps = None, self.random.randint(0, self.stride)
        while process.is_alive():
            if found := beats(notes):
                start = found[0][0] if start is None else start
                if found[-1][0] >= start + steps:
                    break
            time.sleep(0.005)
        action: dict[str, Callable[[Any, int], None]] = {
            "SIGKILL": self._kill,
            "SIGKILL in a write": self._kill_in_a_write,
            "SIGTERM": self._interrupt(signal.SIGTERM),
            "SIGINT": self._interrupt(signal.SIGINT),
            "full disk": self._fill_the_disk,
        }
        action[kind](process, place)
        process.join()
        (self.output_dir / "filler").unlink(missing_ok=True)
        self._judge(kind, process.exitcode, log, notes, is_saved)
        if process.exitcode == 0:
            return False
        self.counts[kind] += 1
        return True

    def _kill(self, process: Any, place: int) -> None:
        time.sleep(self.random.uniform(0.0, 0.4))
        process.kill()

    def _kill_in_a_write(self, process: Any, place: int) -> None:
        there = set(self.output_dir.glob("checkpoint-*"))
        while process.is_alive():
            new = set(self.output_dir.glob("checkpoint-*")) - there
            if any((folder / FILES[place % len(FILES)]).exists() for folder in new):
                process.kill()
                return

    def _interrupt(self, number: int) -> Callable[[Any, int], None]:
        def send(process: Any, place: int) -> None:
            time.sleep(self.random.uniform(0.0, 0.4))
            if process.is_alive():
                os.kill(process.pid, number)

        return send

    def _fill_the_disk(self, process: Any, place: int) -> None:
        with (self.output_dir / "filler").open("wb") as filler:
            while process.is_alive():  # older checkpoints make room
                if psutil.disk_usage(str(self.output_dir)).free > 2**22:
                    filler.write(bytes(2**20))
                    filler.flush()
                time.sleep(0.002)

    def _judge(self, kind: str, status: int, log: Path, notes: Path, is_saved: bool) -> None:
        text, name = (
            log.read_text(errors="replace", encoding="utf-8"),
            f"attempt {self.number}, {kind}",
        )
        self.passed_over += text.count("incomplete: ")
        self.memory = max([self.memory, *(memory for _, memory in beats(notes))])
        expected = {"SIGTERM": 143, "SIGINT": -signal.SIGINT, "full disk": 1}
        if status not in (0, expected.get(kind, -signal.SIGKILL)):
            self.faults.append(f"{name}: exit status {status}\n{text[-2000:]}")
        if kind in ("SIGTERM", "SIGINT") and status:
            lines = [line for line in text.splitlines() if ": ended by " in line]
            if len(lines) != 1 or "Traceback" in text:
                self.faults.append(f"{name}: {lines}\n{text[-2000:]}")
            if is_saved and "after this step" not in text:
                self.faults.append(f"{name}: no checkpoint was announced")
        if kind == "full disk" and status and "MiB are free in" not in text:
            self.faults.append(f"{name}: {text[-2000:]}")
        self.expect_no_process(name)

    def expect_no_process(self, name: str) -> None:
        """Note processes that are left after a while."""
        for _ in range(300):
            left = tagged() - self.servers
            if not left:
                return
            time.sleep(0.1)
        commands = [psutil.Process(pid).cmdline() for pid in left if psutil.pid_exists(pid)]
        self.faults.append(f"{name}: left {commands}")

    def finish(self) -> None:
        """Let the last attempt come to its end."""
        process, log, notes = self.start(self.output_dir, resume_from_checkpoint="auto")
        process.join()
        self._judge("the last one", -signal.SIGKILL if process.exitcode else 0, log, notes, False)
        if process.exitcode:
            self.faults.append(
                f"the last attempt failed\n{log.read_text(encoding='utf-8')[-2000:]}"
            )


def are_equal(one: Path, other: Path) -> bool:
    """Say whether two saved models have the same parameters, to the last bit."""
    first, second = (load_file(folder / "model.safetensors") for folder in (one, other))
    return first.keys() == second.keys() and all(torch.equal(first[k], second[k]) for k in first)


def on_two_processes(folder: Path, soak: Soak, steps: int) -> dict[str, Any]:
    """Kill a rank, then freeze one, then let the run end; compare it with an undisturbed one."""
    launcher = [sys.executable, "-m", "accelerate.commands.launch", "--main_process_port", "0"]
    launcher += ["--config_file", str(ROOT / "accelerate_configs" / "cpu" / "ddp.yaml")]
    launcher += ["-m", "barl_trl.cli"]
    seconds = {}

    def train(name: str, output_dir: Path, disturb: int | None = None) -> None:
        notes, log = folder / f"{name}.beats", folder / f"{name}.log"
        settings = {"max_steps": steps, "per_device_train_batch_size": 2}
        argv = [*launcher, *options(output_dir, resume_from_checkpoint="auto", **settings)]
        with log.open("w", encoding="utf-8") as output:
            environment = os.environ | {"HEARTBEAT": str(notes)}
            process = subprocess.Popen(argv, env=environment, stdout=output, stderr=output)
            while disturb and process.poll() is None and len(beats(notes)) < 4:
                time.sleep(0.05)
            if disturb:
                [rank] = [
                    child
                    for child in psutil.Process(process.pid).children(recursive=True)
                    if child.environ().get("LOCAL_RANK") == "1"
                    and "barl_trl.cli" in child.cmdline()
                ]
                rank.send_signal(disturb)
            started = time.perf_counter()
            status = process.wait(600)
        seconds[name] = round(time.perf_counter() - started)
        if (status != 0) != bool(disturb):
            soak.faults.append(
                f"{name}: exit status {status}\n{log.read_text(encoding='utf-8')[-3000:]}"
            )
        soak.expect_no_process(name)

    train("undisturbed", folder / "two")
    train("a rank killed", folder / "disturbed", signal.SIGKILL)
    train("a rank frozen", folder / "disturbed", signal.SIGSTOP)
    train("to the end", folder / "disturbed")
    return {
        "steps": steps,
        "equal": are_equal(folder / "two", folder / "disturbed"),
        "seconds until the launcher ended": {name: seconds[name] for name in [*seconds][1:3]},
    }


def mounted(folder: Path) -> bool:
    """Mount a small file system, if this is allowed."""
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={DISK}", "tmpfs", str(folder)]
    try:
        return subprocess.run(command, capture_output=True).returncode == 0
    except FileNotFoundError:
        return False


def run(folder: Path, *, quick: bool, seed: int) -> dict[str, Any]:
    """Run everything; return the record."""
    started, steps = time.perf_counter(), 30 if quick else 300
    planned = {"SIGKILL": 30, "SIGKILL in a write": 8, "SIGTERM": 10, "SIGINT": 10, "full disk": 3}
    if quick:
        planned = {"SIGKILL": 1, "SIGKILL in a write": 1, "SIGTERM": 2, "SIGINT": 1}
    output_dir = folder / "disk"
    has_disk = mounted(output_dir) if not quick else False
    if not has_disk:
        planned.pop("full disk", None)
    soak = Soak(folder, output_dir / "run", steps, seed)
    soak.output_dir.mkdir(parents=True)
    try:
        calm = soak.undisturbed()
        events = [(kind, place) for kind, number in planned.items() for place in range(number)]
        soak.random.shuffle(events)
        soak.stride = round(0.6 * steps / len(events))  # so that all of them happen
        for done, (kind, place) in enumerate(events, 1):
            if not soak.disturb(kind, place):
                break
            last = beats(folder / f"{soak.number}.beats")
            at = last[-1][0] if last else "start"
            print(f"{done} of {len(events)}: {kind}, step {at}", file=sys.stderr, flush=True)
        soak.finish()
        record = {
            "date": str(date.today()),
            "versions": {name: metadata.version(name) for name in ("torch", "transformers", "trl")},
            "steps": steps,
            "planned": planned,
            "ended": dict(soak.counts),
            "passed_over": soak.passed_over,
            "equal": are_equal(folder / "whole", soak.output_dir),
            "memory_MiB": {
                "undisturbed, at a third": round(calm[len(calm) // 3][1] / 2**20),
                "undisturbed, at the end": round(calm[-1][1] / 2**20),
                "disturbed, most": round(soak.memory / 2**20),
            },
        }
        if not quick:
            record["two processes"] = on_two_processes(folder, soak, 40)
    finally:
        if has_disk:
            subprocess.run(["umount", str(output_dir)], check=False)
    return record | {"faults": soak.faults, "seconds": round(time.perf_counter() - started)}


def main() -> None:
    """Run, print, and fail if there is a fault."""
    parser = argparse.ArgumentParser(description="Kills a training again and again.")
    parser.add_argument("--quick", action="store_true", help="30 steps, five kills, one process")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path, metavar="FILE", help="where to write the record")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # unmounts
    os.environ[TAG] = uuid.uuid4().hex
    path = [str(ROOT / "benchmarks"), *filter(None, [os.environ.get("PYTHONPATH")])]
    os.environ["PYTHONPATH"] = os.pathsep.join(path)
    with TemporaryDirectory() as folder:
        record = run(Path(folder), quick=arguments.quick, seed=arguments.seed)
    if arguments.json:
        arguments.json.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    print("| ended by | planned | happened |\n|---|---|---|")
    for kind, number in record["planned"].items():
        print(f"| {kind} | {number} | {record['ended'].get(kind, 0)} |")
    rest = {name: record[name] for name in ("steps", "passed_over", "equal", "memory_MiB")}
    print(f"\n{json.dumps(rest | {'two processes': record.get('two processes')})}")
    for fault in record["faults"]:
        print(f"\nFAULT: {fault}")
    is_equal = record["equal"] and record.get("two processes", {"equal": True})["equal"]
    sys.exit(not is_equal or bool(record["faults"]))


if __name__ == "__main__":
    main()
