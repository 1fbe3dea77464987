r"""Whether a run that is killed again and again reaches the parameters of an undisturbed one.

`OMP_NUM_THREADS=1 python benchmarks/soak.py [--quick] [--seed 0] [--json FILE]` prints a Markdown
table, and fails if anything is not as it should be. The demo's model is trained twice with the same
settings, through `barl train`: once undisturbed, once with attempts that are ended on the way, each
followed by one with `--resume_from_checkpoint auto`. An attempt is ended by

- SIGKILL at a random time,
- SIGKILL when a file of a checkpoint appears, each file in turn,
- SIGTERM or SIGINT (Ctrl-C) at a random time,
- a full disk: a small file system that is filled up (where mounting is allowed).

After each attempt no process of it may be left.
"""

import argparse
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import time
import uuid
from collections import Counter
from datetime import date
from importlib import metadata
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from safetensors.torch import load_file

from barl_trl.synthetic.search import TINY_MODEL_DIR

ROOT = Path(__file__).parents[1]
TAG = "BARL_SOAK"
FILES = (  # of a checkpoint, in the order of their writing
    *("config.json", "model.safetensors", "training_args.bin", "optimizer.pt", "scheduler.pt"),
    *("rng_state.pth", "trainer_state.json"),
)
DISK = 96 * 2**20
ENDS = {"SIGTERM": (143, -signal.SIGTERM), "SIGINT": (130, -signal.SIGINT), "full disk": (1, 2)}
"""Exit statuses of what is ended; of all else it is SIGKILL's."""
SETTINGS = {
    "model_name_or_path": TINY_MODEL_DIR,
    "prompt_template": "{problem}\n",
    "dataset_name": ROOT / "examples" / "search.jsonl",
    "dataset_train_split": "train[:40]",
    "reward_funcs": ["accuracy_reward", "soak.heartbeat"],
    "use_cpu": True,
    "bf16": False,
    "per_device_train_batch_size": 4,
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
    """A reward of 0 that notes the step, and the most memory of its process so far, in KiB."""
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with Path(os.environ["HEARTBEAT"]).open("a", encoding="utf-8") as notes:
        notes.write(f"{trainer_state.global_step} {memory}\n")
    return [0.0] * len(prompts)


def beats(file: Path) -> list[tuple[int, int]]:
    """Return step and memory at each heartbeat."""
    lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    pairs = [line.split() for line in lines]
    return [(int(pair[0]), int(pair[1])) for pair in pairs if len(pair) == 2]


def tagged() -> set[str]:
    """Return the processes of this soak, but for the one that runs it."""
    found, tag = set(), f"{TAG}={os.environ[TAG]}".encode()
    for place in Path("/proc").glob("[0-9]*/environ"):
        try:  # one that ended has none
            if tag in place.read_bytes().split(b"\0"):
                found.add(place.parent.name)
        except OSError:
            pass
    return found - {str(os.getpid())}


class Soak:
    """The attempts of a disturbed run, and what became of them."""

    def __init__(self, folder: Path, output_dir: Path, steps: int, seed: int):
        self.folder, self.output_dir, self.steps = folder, output_dir, steps
        self.random = random.Random(seed)
        self.counts: Counter[str] = Counter()
        self.faults: list[str] = []
        self.number, self.memory, self.stride = 0, 0, 1

    def start(self, output_dir: Path, *more: str) -> tuple[subprocess.Popen, Path, Path]:
        """Start an attempt; return its process, its log and its heartbeat."""
        self.number += 1
        log, notes = (self.folder / f"{self.number}.{kind}" for kind in ("log", "beats"))
        words = [sys.executable, "-m", "barl_trl", "train", *more]
        for name, value in (SETTINGS | {"output_dir": output_dir, "max_steps": self.steps}).items():
            words += [f"--{name}", *map(str, value if isinstance(value, list) else [value])]
        environment = os.environ | {"HEARTBEAT": str(notes)}
        with log.open("w", encoding="utf-8") as output:
            return (
                subprocess.Popen(words, env=environment, stdout=output, stderr=output),
                log,
                notes,
            )

    def undisturbed(self) -> list[tuple[int, int]]:
        """Train without disturbance; return its heartbeat."""
        process, log, notes = self.start(self.folder / "whole")
        if process.wait():
            sys.exit(log.read_text(encoding="utf-8"))
        return beats(notes)

    def disturb(self, kind: str, place: int) -> bool:
        """Make an attempt, and end it; return whether it came to that."""
        process, log, notes = self.start(self.output_dir, "--resume_from_checkpoint", "auto")
        start, steps = None, self.random.randint(0, self.stride)
        while process.poll() is None:
            if found := beats(notes):
                start = found[0][0] if start is None else start
                if found[-1][0] >= start + steps:
                    break
            time.sleep(0.005)
        self._end(kind, process, place)
        process.wait()
        (self.output_dir / "filler").unlink(missing_ok=True)
        self._judge(kind, process.returncode, log, notes)
        self.counts[kind] += process.returncode != 0
        return process.returncode != 0

    def _end(self, kind: str, process: subprocess.Popen, place: int) -> None:
        if kind == "full disk":
            with (self.output_dir / "filler").open("wb") as filler:
                while process.poll() is None:  # older checkpoints make room
                    if shutil.disk_usage(self.output_dir).free > 2**22:
                        filler.write(bytes(2**20))
                        filler.flush()
                    time.sleep(0.002)
        elif kind == "SIGKILL in a write":
            there = set(self.output_dir.glob("checkpoint-*"))
            while process.poll() is None:
                new = set(self.output_dir.glob("checkpoint-*")) - there
                if any((folder / FILES[place % len(FILES)]).exists() for folder in new):
                    process.kill()
        else:
            time.sleep(self.random.uniform(0.0, 0.4))
            process.send_signal(getattr(signal, kind))

    def _judge(self, kind: str, status: int, log: Path, notes: Path) -> None:
        text = log.read_text(errors="replace", encoding="utf-8")
        name = f"attempt {self.number}, {kind}"
        self.memory = max([self.memory, *(memory for _, memory in beats(notes))])
        if status not in (0, *ENDS.get(kind, (-signal.SIGKILL,))):
            self.faults.append(f"{name}: exit status {status}\n{text[-2000:]}")
        if kind == "SIGINT" and status and "Traceback" in text:
            self.faults.append(f"{name}: more than a line\n{text[-2000:]}")
        for _ in range(300):
            if not (left := tagged()):
                return
            time.sleep(0.1)
        self.faults.append(f"{name}: left {left}")

    def finish(self) -> None:
        """Let the last attempt come to its end."""
        process, log, _ = self.start(self.output_dir, "--resume_from_checkpoint", "auto")
        if process.wait():
            text = log.read_text(encoding="utf-8")
            self.faults.append(f"the last attempt failed\n{text[-2000:]}")


def are_equal(one: Path, other: Path) -> bool:
    """Say whether two saved models have the same parameters, to the last bit."""
    first, second = (load_file(folder / "model.safetensors") for folder in (one, other))
    return first.keys() == second.keys() and all(torch.equal(first[k], second[k]) for k in first)


def mounted(folder: Path) -> bool:
    """Mount a small file system, if this is allowed."""
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={DISK}", "tmpfs", str(folder)]
    return (
        bool(shutil.which("mount")) and not subprocess.run(command, capture_output=True).returncode
    )


def run(folder: Path, *, quick: bool, seed: int) -> dict[str, Any]:
    """Run everything; return the record."""
    started, steps = time.perf_counter(), 30 if quick else 300
    planned = {"SIGKILL": 30, "SIGKILL in a write": 8, "SIGTERM": 10, "SIGINT": 10, "full disk": 3}
    if quick:
        planned = {"SIGKILL": 1, "SIGKILL in a write": 1, "SIGINT": 1}
    output_dir = folder / "disk"
    has_disk = not quick and mounted(output_dir)
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
            print(f"{done} of {len(events)}: {kind}", file=sys.stderr, flush=True)
        soak.finish()
        return {
            "date": str(date.today()),
            "versions": {name: metadata.version(name) for name in ("torch", "transformers", "trl")},
            "steps": steps,
            "planned": planned,
            "ended": dict(soak.counts),
            "equal": not soak.faults and are_equal(folder / "whole", soak.output_dir),
            "memory_MiB": {
                "undisturbed, at a third": calm[len(calm) // 3][1] // 2**10,
                "undisturbed, at the end": calm[-1][1] // 2**10,
                "disturbed, most": soak.memory // 2**10,
            },
            "faults": soak.faults,
            "seconds": round(time.perf_counter() - started),
        }
    finally:
        if has_disk:
            subprocess.run(["umount", str(output_dir)], check=False)


def main() -> None:
    """Run, print, and fail if there is a fault."""
    parser = argparse.ArgumentParser(description="Kills a training again and again.")
    parser.add_argument("--quick", action="store_true", help="30 steps, three kills")
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
    print("\n" + json.dumps({name: record[name] for name in ("steps", "equal", "memory_MiB")}))
    for fault in record["faults"]:
        print(f"\nFAULT: {fault}")
    sys.exit(not record["equal"])


if __name__ == "__main__":
    main()
