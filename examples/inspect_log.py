"""Write the responses of `barl evaluate` as logs of inspect_ai, for its viewer.

    pip install inspect_ai
    python examples/inspect_log.py outputs/evaluation --log_dir outputs/logs
    inspect view --log-dir outputs/logs

A benchmark is a task, a problem is a sample, and the responses to it are the sample's epochs. A
score is "C" or "I", as inspect_ai's own scorers give (https://inspect.aisi.org.uk/eval-logs.html).
"""

import argparse
import hashlib
import json
import shlex
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path

import inspect_ai.log as logs  # pyright: ignore[reportMissingImports]
import inspect_ai.model as models  # pyright: ignore[reportMissingImports]
from inspect_ai.scorer import CORRECT, INCORRECT, Score  # pyright: ignore[reportMissingImports]

from barl_trl.evaluation.responses import by_problem, read_responses
from barl_trl.evaluation.statistics import mean_pass_at_k

GENERATION = ("temperature", "max_tokens", "seed", "top_p", "top_k")


def log_of(name, responses, results, changed):
    """Return the log of a benchmark; `changed` is when its results were written."""
    model, row = results["model"], results["benchmarks"].get(name)
    started = results["runs"][0]["date"] if results["runs"] else changed
    ids = list(dict.fromkeys(response.problem_id for response in responses))
    epochs = 1 + max(response.sample for response in responses)
    text = json.dumps([model, name, [vars(response) for response in responses]])
    task_id = hashlib.sha256(text.encode()).hexdigest()[:22]  # the same responses, the same name
    tokens = sum(response.tokens for response in responses)
    given = {option: results[option] for option in GENERATION if results.get(option) is not None}
    return logs.EvalLog(
        status="success" if row else "cancelled",  # a run that was killed has no results
        eval=logs.EvalSpec(
            created=started,
            task=name,
            task_id=task_id,
            eval_id=task_id,
            run_id=task_id,
            dataset=logs.EvalDataset(
                name=name,
                location=row["source"].get("path") if row else None,
                samples=len(ids),
                sample_ids=ids,
            ),
            model=model,
            model_args=results["model_init_kwargs"] or {},
            model_generate_config=models.GenerateConfig(**given),
            config=logs.EvalConfig(epochs=epochs, epochs_reducer=["mean"]),
            packages=results["versions"],
            metadata=results | {"benchmarks": row},
        ),
        results=logs.EvalResults(
            total_samples=len(ids) * epochs,
            completed_samples=len(responses),
            scores=scores_of(responses, results["grader"]["name"]),
        ),
        stats=logs.EvalStats(
            started_at=started, completed_at=changed, model_usage={model: usage(tokens)}
        ),
        samples=[sample_of(response, model, results["grader"]["name"]) for response in responses],
    )


def sample_of(response, model, scorer):
    """Return a response as a sample's epoch; epochs are counted from 1."""
    message = models.ChatMessageAssistant(content=response.response, model=model, source="generate")
    stop_reason = "max_tokens" if response.truncated else "stop"
    choice = models.ChatCompletionChoice(message=message, stop_reason=stop_reason)
    score = Score(
        value=CORRECT if response.reward else INCORRECT,
        answer=response.answer,
        explanation=response.reason,
    )
    return logs.EvalSample(
        id=response.problem_id,
        epoch=response.sample + 1,
        input=response.problem,
        target=response.solution,
        messages=[models.ChatMessageUser(content=response.prompt, source="input"), message],
        output=models.ModelOutput(model=model, choices=[choice], usage=usage(response.tokens)),
        model_usage={model: usage(response.tokens)},
        scores={scorer: score},
    )


def scores_of(responses, scorer):
    """Return accuracy and pass@k over problems, with their standard errors."""
    rewards = [[one.reward for one in group] for group in by_problem(responses).values()]
    ks = range(1, 1 + min(map(len, rewards)))  # pass@1 is the accuracy
    return [
        logs.EvalScore(
            name=scorer,
            scorer=scorer,
            reducer="mean" if k == 1 else f"pass_at_{k}",
            scored_samples=len(rewards),
            unscored_samples=0,
            metrics={
                metric: logs.EvalMetric(name=metric, value=value)
                for metric, value in zip(
                    ("accuracy", "stderr"), mean_pass_at_k(rewards, k), strict=True
                )
                if value is not None
            },
        )
        for k in ks
    ]


def usage(tokens):
    """Return the tokens of responses; those of prompts are not recorded."""
    return models.ModelUsage(output_tokens=tokens, total_tokens=tokens)


def main(argv=None):
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folders", nargs="+", type=Path, help="what `barl evaluate` wrote")
    parser.add_argument("--log_dir", type=Path, default=Path("outputs/logs"))
    args = parser.parse_args(argv)
    args.log_dir.mkdir(parents=True, exist_ok=True)
    for folder in args.folders:
        path = folder / "results.json"
        results = json.loads(path.read_text(encoding="utf-8"))
        changed = datetime.fromtimestamp(path.stat().st_mtime, UTC).isoformat(timespec="seconds")
        for name, problems in read_responses(folder).items():
            log = log_of(name, [*chain.from_iterable(problems.values())], results, changed)
            created = log.eval.created.replace(":", "-")
            written = args.log_dir / f"{created}_{name}_{log.eval.task_id}.eval"
            logs.write_eval_log(log, written)
            print(written)
    print(f"To look at them: inspect view --log-dir {shlex.quote(str(args.log_dir))}")


if __name__ == "__main__":
    main()
