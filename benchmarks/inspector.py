"""What the page of `barl inspect` takes: 100,000 rollouts listed, one opened, in Chromium.

`python benchmarks/inspector.py [--rollouts N] [--turns] [--folder DIR]` makes records of random
beliefs, in files of 1,000 rollouts, and their page, and opens it from `file://`. With `--turns`
each step is a turn, and its last tokens are an observation. Each time is the median of several,
of a browser that has read nothing before; needs `pip install pytest-playwright`. Memory is the peak
of the process that makes records and page.
"""

import argparse
import random
import resource
import shutil
import statistics
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import torch
from playwright.sync_api import Page, sync_playwright

from barl_trl import BARLConfig
from barl_trl.inspector.page import asset_files, folder_page, formulas_shard
from barl_trl.inspector.site import write_page
from barl_trl.posterior import posterior, values_under
from barl_trl.trainer.records import SCHEMA, file_name, write_records

FILE_ROLLOUTS, GROUP, STEPS, STEP_TOKENS, HYPOTHESES = 1_000, 8, 8, 16, 4
OBSERVED_TOKENS = 5  # of a turn's 16
WORDS = ("so ", "then ", "x ", "= ", "7", "+ ", "which ", "is ", "not ", "\\frac{1}{2} ", ".\n")
REPETITIONS = 7
ARGUMENTS = (
    *("--no-sandbox", "--disable-gpu", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync"),
)
OPENED = """async (hash) => {
  const before = performance.now();
  const seen = new Promise((done) => new MutationObserver(() => done()).observe(
    document.documentElement, { attributes: true, attributeFilter: ["data-shown"] }));
  location.hash = hash;
  await seen;
  await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
  return performance.now() - before;
}"""


def batch(number: int, rollouts: int, *, has_turns: bool) -> Iterator[dict[str, Any]]:
    """Yield the records of one file, with posterior and values of random likelihoods."""
    random.seed(number)
    torch.manual_seed(number)
    logps = -3 * torch.rand(rollouts, STEPS + 1, HYPOTHESES)
    outcomes = torch.randint(2, (rollouts,)).float()
    belief = posterior(logps, beta=1.0)
    values = values_under(belief, logps, outcomes).steps
    weights = (values - values.mean()) / values.std()
    tokens, own, turns = STEPS * STEP_TOKENS, [1] * (STEPS * STEP_TOKENS), {}
    if has_turns:
        own = ([1] * (STEP_TOKENS - OBSERVED_TOKENS) + [0] * OBSERVED_TOKENS) * STEPS
        ends = list(range(STEP_TOKENS, tokens + 1, STEP_TOKENS))
        tools = [["look_up"]] * STEPS
        turns = {"own_tokens": own, "turn_ends": ends, "observed_tools": tools}
    for n in range(rollouts):
        group = n // GROUP
        right = bool(outcomes[n])
        yield {
            "step": number,
            "group": group,
            "rollout": n % GROUP,
            "prompt_id": f"{number * FILE_ROLLOUTS + group:012x}",
            "prompt": f"Problem {group} of step {number}: what is the sum of {group} and 2?\n",
            "solution": str(group + 2),
            "token_ids": random.choices(range(150_000), k=tokens),
            "tokens": random.choices(WORDS, k=tokens),
            "token_logps": (-torch.rand(tokens)).tolist(),
            "importance_ratios": (0.9 + 0.2 * torch.rand(tokens)).tolist(),
            "token_weights": (
                weights[n].repeat_interleave(STEP_TOKENS) * torch.tensor(own)
            ).tolist(),
            "step_ends": list(range(STEP_TOKENS, tokens + 1, STEP_TOKENS)),
            "step_values": values[n].tolist(),
            "rewards": [outcomes[n].item()],
            "outcome": outcomes[n].item(),
            "advantage": outcomes[n].item() - 0.5,
            "answer": str(group + 2 if right else group),
            "hypotheses": [str(group + 2), str(group), "7", "x"],
            "member": 0 if right else 1,
            "answer_logps": logps[n].tolist(),
            "posterior": belief[n].tolist(),
            "reason": "equal numbers",
            "is_cut_off": n % 7 == 0,
            "scored_tokens": 900,
            **turns,
        }


def make(folder: Path, rollouts: int, *, has_turns: bool) -> tuple[float, int]:
    """Write records and their page; return CPU seconds for the page, and its bytes with data."""
    metadata = {
        "reward_names": ["accuracy"],
        "settings": BARLConfig(str(folder), use_cpu=True, bf16=False).settings,
    }
    for number, first in enumerate(range(0, rollouts, FILE_ROLLOUTS)):
        size = min(FILE_ROLLOUTS, rollouts - first)
        records = list(batch(number, size, has_turns=has_turns))
        table = pa.Table.from_pylist(records, SCHEMA)
        write_records(folder / "beliefs" / file_name(number), [table], metadata)
    start = time.process_time()
    write_page([folder / "beliefs"], ["benchmark"], folder / "page")
    seconds = time.process_time() - start
    return seconds, sum(p.stat().st_size for p in (folder / "page").rglob("*") if p.is_file())


def page_bytes() -> int:
    """Return the size of a page without data: HTML, scripts, styles, licences, packed KaTeX."""
    return len(folder_page()) + len(formulas_shard()) + sum(map(len, asset_files().values()))


def listed(page: Page, address: str) -> float:
    """Return milliseconds from the navigation to the list of all rollouts."""
    page.goto(address)
    page.wait_for_selector("#list .row")
    return page.evaluate("() => performance.getEntriesByName('listed')[0].startTime")


def main() -> None:
    """Run the benchmark and print its table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rollouts", type=int, default=100_000)
    parser.add_argument("--turns", action="store_true")
    parser.add_argument("--folder", type=Path, help="kept (default: a temporary one)")
    options = parser.parse_args()
    with TemporaryDirectory() as temporary, sync_playwright() as playwright:
        folder = options.folder or Path(temporary)
        seconds, size = make(folder, options.rollouts, has_turns=options.turns)
        address = (folder / "page" / "index.html").resolve().as_uri()
        executable = shutil.which("chromium")
        browser = playwright.chromium.launch(executable_path=executable, args=list(ARGUMENTS))
        lists, opens = [], []
        last = (options.rollouts - 1) // FILE_ROLLOUTS
        for n in range(REPETITIONS):
            page = browser.new_context(viewport={"width": 1280, "height": 900}).new_page()
            lists.append(listed(page, address))
            place = f"#/step/{n * last // REPETITIONS}/group/{n}/rollout/3"
            opens.append(page.evaluate(OPENED, place))
            page.close()
        rows = {
            f"list of {options.rollouts:,} rollouts, ms": statistics.median(lists),
            "a rollout opened, ms": statistics.median(opens),
            "slowest of them, ms": max(opens),
            "page without data, kB": page_bytes() / 1e3,
            "page with data, MB": size / 1e6,
            "made, CPU s": seconds,
            "made, MiB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        }
        print(f"Chromium {browser.version}\n\n| what | measured |\n|---|---|")
        for name, value in rows.items():
            print(f"| {name} | {value:.0f} |")
        browser.close()


if __name__ == "__main__":
    main()
