r"""What judging a batch's answers costs: this package beside math-verify in as many processes.

`python benchmarks/answers.py [--quick] [--prompts 1024] [--rollouts 5] [--seed 0] [--json FILE]`
prints Markdown tables.
Both judge the same completions (see `math_like.py`), in one process run, one after the other:

- `barl_trl` does what the trainer does with a batch: `accuracy_reward` extracts and verifies every
  completion's answer, `merge_hypotheses` makes the hypothesis set of every prompt. The whole of it
  runs before math-verify and again after it, and without merging; each time with new processes and
  nothing remembered.
- `math-verify` does what its README says, with its default settings and time-outs, in a pool of as
  many processes: `parse` the boxed true answer, `parse` the whole completion or the answer in its
  box alone, `verify`. It merges nothing.

CPU seconds are those of this process and its children, which are ended before the clock is read.
All are cold: they hold the start of the processes, each with the import of math-verify and a first
comparison. What that costs alone is given too; without it the processes are warm.
"""

import argparse
import copy
import json
import logging
import os
import platform
import resource
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from importlib import metadata
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple, TypeVar

from math_like import Prompt, make_prompts

from barl_trl.graders import get_grader
from barl_trl.graders.processes import compare
from barl_trl.hypotheses import merge_hypotheses
from barl_trl.rewards import AccuracyReward

PACKAGES = ("math-verify", "latex2sympy2_extended", "sympy")

Result = TypeVar("Result")


class Cost(NamedTuple):
    """Seconds that something took."""

    wall: float
    cpu: float


class Judged(NamedTuple):
    """What a contender made of the completions."""

    rewards: list[float]
    failures: int
    """Comparisons that timed out or crashed."""
    hypotheses: int | None = None
    """Of all prompts together."""
    reasons: dict[tuple[str, str], str] = {}
    """What decided about each pair of a true answer and an answer, while verifying."""


def measured(run: Callable[[], Result]) -> tuple[Result, Cost]:
    """Return a result and its cost, with that of starting and ending the grader's processes."""
    wall, cpu = time.perf_counter(), _cpu_seconds()
    result = run()
    compare.close()
    return result, Cost(time.perf_counter() - wall, _cpu_seconds() - cpu)


def _cpu_seconds() -> float:
    used = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in used)


def start_processes() -> None:
    """Use all processes that the grader may use at the same time, for one comparison each."""
    with ThreadPoolExecutor(compare.size) as threads:
        list(threads.map(lambda n: compare("x", f"x+{n}"), range(compare.size)))


def judge_with_barl_trl(prompts: list[Prompt], *, merge: bool = True) -> Judged:
    """Verify and merge as the trainer does, with a grader that remembers nothing yet."""
    grader = copy.copy(get_grader("math_verify"))
    failed: set[tuple[str, str]] = set()

    def equivalent(gold: str, answer: str) -> bool:
        verdict = grader.verify(gold, answer)
        if verdict.is_failure:
            failed.add((gold, answer))
        return verdict.correct

    logged: dict[str, list] = {}
    rewards = AccuracyReward(grader, "accuracy_reward")(
        [rollout.completion for prompt in prompts for rollout in prompt.rollouts],
        [prompt.gold for prompt in prompts for _ in prompt.rollouts],
        log_extra=logged.__setitem__,
    )
    hypotheses = 0
    for prompt in prompts if merge else ():
        answers = [grader.extract_answer(rollout.completion) for rollout in prompt.rollouts]
        merged = merge_hypotheses(prompt.gold, answers, equivalent=equivalent)
        hypotheses += len(merged.answers) if merged else 0
    pairs = zip(logged["solution"], logged["answer"], strict=True)
    reasons = dict(zip(pairs, logged["verdict"], strict=True))
    failed.update(pair for pair, reason in reasons.items() if reason in ("timeout", "crash"))
    return Judged([reward or 0.0 for reward in rewards], len(failed), hypotheses or None, reasons)


def start_math_verify() -> None:
    """Import math-verify, and have its grammar and patterns built."""
    from math_verify import parse, verify

    verify(parse(r"\boxed{\frac{2}{2}}"), parse("So the answer is $x+1$."))


def judge_in_pool(texts: list[tuple[str, str]]) -> Judged:
    """Verify pairs of a true answer and a text in a pool of new processes."""
    with get_context("spawn").Pool(compare.size, initializer=start_math_verify) as pool:
        parts = pool.map(_judge, texts, chunksize=64)
        pool.close()
        pool.join()
    return Judged([reward for reward, _ in parts], sum(failures for _, failures in parts))


def _judge(pair: tuple[str, str]) -> tuple[float, int]:
    """Return the reward of a text, and how many time-outs there were."""
    from math_verify import parse, verify

    gold, text = pair
    timeouts = _Timeouts()
    logging.getLogger("math_verify").addHandler(timeouts)
    reward = float(verify(parse(f"\\boxed{{{gold}}}"), parse(text)))
    logging.getLogger("math_verify").removeHandler(timeouts)
    return reward, timeouts.number


class _Timeouts(logging.Handler):
    """Counts what math-verify says of its time-outs."""

    number = 0

    def emit(self, record: logging.LogRecord) -> None:
        self.number += record.getMessage().startswith("Timeout during")


def cost_table(rows: list[tuple[str, Cost, float]], completions: int) -> str:
    """Return what each contender costs; `rows` have name, cost and the CPU seconds of start-up.

    The last one is the rival of all.
    """
    _, rival, rival_start = rows[-1]
    lines = [
        "| | wall s | CPU s | start-up, CPU s | completions per CPU s | CPU ms per completion "
        "| math-verify : this, cold | warm |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name, cost, start in rows:
        running = max(cost.cpu - start, 1e-3)
        lines.append(
            f"| {name} | {cost.wall:.1f} | {cost.cpu:.1f} | {start:.1f} "
            f"| {completions / cost.cpu:.0f} | {1000 * cost.cpu / completions:.2f} "
            f"| {rival.cpu / cost.cpu:.1f} | {(rival.cpu - rival_start) / running:.1f} |"
        )
    return "\n".join(lines)


def verdict_table(contenders: dict[str, Judged], prompts: list[Prompt]) -> str:
    """Return how the verdicts compare with what is known of the completions."""
    values = [rollout.value for prompt in prompts for rollout in prompt.rollouts]
    boxed = [i for i, value in enumerate(values) if value is not None]
    made = sum(prompt.count_hypotheses() for prompt in prompts)
    lines = [
        "| | rewards | accuracy, boxed | right ones missed | wrong ones rewarded "
        "| rewards without a closed box | time-outs, crashes | hypotheses |",
        "|---|---|---|---|---|---|---|---|",
        f"| as made | {values.count(0)} | | | | | | {made} |",
    ]
    for name, (rewards, failures, hypotheses, _) in contenders.items():
        missed = sum(values[i] == 0 and not rewards[i] for i in boxed)
        wrong = sum(values[i] != 0 and bool(rewards[i]) for i in boxed)
        lines.append(
            f"| {name} | {sum(rewards):.0f} | {1 - (missed + wrong) / len(boxed):.4f} | {missed} "
            f"| {wrong} | {sum(rewards) - sum(rewards[i] for i in boxed):.0f} | {failures} "
            f"| {'' if hypotheses is None else hypotheses} |"
        )
    return "\n".join(lines)


def what_decided(judged: Judged) -> str:
    """Return how many distinct pairs of a true answer and an answer each rule decided."""
    counts = Counter(judged.reasons.values()).most_common()
    return ", ".join(f"{reason} {number}" for reason, number in counts)


def other_verdicts(judged: Judged, prompts: list[Prompt]) -> str:
    """Return the distinct pairs whose verdict is not what was made, as a list."""
    rollouts = [(prompt.gold, rollout) for prompt in prompts for rollout in prompt.rollouts]
    pairs = {
        (gold, rollout.answer.strip()): "missed" if rollout.value == 0 else "rewarded"
        for (gold, rollout), reward in zip(rollouts, judged.rewards, strict=True)
        if rollout.value is not None and (rollout.value == 0) != bool(reward)
    }
    return "\n".join(
        f"- {fault}: `{gold}`, `{answer}` ({judged.reasons[gold, answer]})"
        for (gold, answer), fault in pairs.items()
    )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="Answers judged: this package and math-verify.")
    parser.add_argument("--prompts", type=int, default=1024)
    parser.add_argument("--rollouts", type=int, default=5)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="16 prompts")
    parser.add_argument("--json", type=Path, help="file for a list of records")
    args = parser.parse_args()
    prompts = make_prompts(16 if args.quick else args.prompts, args.rollouts, args.seed)
    completions = [rollout.completion for prompt in prompts for rollout in prompt.rollouts]

    ours, our_cost = measured(lambda: judge_with_barl_trl(prompts))
    texts = [(prompt.gold, rollout) for prompt in prompts for rollout in prompt.rollouts]
    boxes = [
        (gold, "" if rollout.value is None else f"\\boxed{{{rollout.answer}}}")
        for gold, rollout in texts
    ]
    boxed, boxed_cost = measured(lambda: judge_in_pool(boxes))
    rival, rival_cost = measured(
        lambda: judge_in_pool([(gold, rollout.completion) for gold, rollout in texts])
    )
    _, rival_start = measured(lambda: judge_in_pool([("2", "2")] * compare.size))
    verified, verifying_cost = measured(lambda: judge_with_barl_trl(prompts, merge=False))
    again, cost_again = measured(lambda: judge_with_barl_trl(prompts))
    _, our_start = measured(start_processes)

    versions = ", ".join(f"{name} {metadata.version(name)}" for name in PACKAGES)
    print(
        f"{os.cpu_count()} CPU cores, of which the grader uses {compare.size}; "
        f"Python {platform.python_version()}, {versions}. {len(prompts)} prompts, "
        f"{len(completions)} completions, {sum(map(len, completions)) / len(completions):.0f} "
        f"characters each, seed {args.seed}.\n"
    )
    costs = [
        ("barl_trl: extract, verify, merge", our_cost, our_start.cpu),
        ("barl_trl: the same again", cost_again, our_start.cpu),
        ("barl_trl: extract, verify", verifying_cost, our_start.cpu),
        ("math-verify: boxes", boxed_cost, rival_start.cpu),
        ("math-verify: completions", rival_cost, rival_start.cpu),
    ]
    print(cost_table(costs, len(completions)) + "\n")
    results = (ours, again, verified, boxed, rival)
    judged = dict(zip((name for name, *_ in costs), results, strict=True))
    print(verdict_table(judged, prompts))
    print(f"\nWhat decided, of {len(ours.reasons)} distinct pairs: {what_decided(ours)}.")
    print(f"\nVerdicts of barl_trl other than made:\n\n{other_verdicts(ours, prompts) or 'none'}")
    if args.json:
        records = [
            {"way": name, **cost._asdict(), "start_up_cpu": start, "completions": len(completions)}
            | {"rewards": sum(judged[name].rewards), "hypotheses": judged[name].hypotheses}
            for name, cost, start in costs
        ]
        args.json.write_text(json.dumps(records, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
