"""A folder of responses as logs of inspect_ai, which its viewer and others' tools open.

https://inspect.aisi.org.uk/eval-logs.html. A benchmark is a task, a problem is a sample, and the
responses to it are the sample's epochs. A score is "C" or "I", as inspect_ai's own scorers give.
"""

import hashlib
import json
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..report.json_files import read_json
from .responses import Response, read_responses
from .results import summarize

if TYPE_CHECKING:
    from inspect_ai.log import EvalLog, EvalSample, EvalScore  # pyright: ignore


def refuse_missing_inspect_ai() -> None:
    """Refuse to export if inspect_ai is missing.

    Raises:
        ImportError: It is not installed.
    """
    try:
        import inspect_ai  # noqa: F401  # pyright: ignore[reportMissingImports]
    except ImportError as error:
        raise ImportError(
            f"inspect_ai must be installed for its log format, got {error}: "
            "`pip install 'barl-trl[inspect-ai]'`."
        ) from None


def export(
    folder: Path, output_dir: Path, *, benchmarks: Collection[str] | None = None
) -> list[Path]:
    """Write a log for each benchmark of a folder that `barl evaluate` wrote.

    Args:
        folder: With response files and `results.json`.
        output_dir: Where the `.eval` files go. The same responses have the same name again.
        benchmarks: Which to take. `None`: all.

    Raises:
        ImportError: inspect_ai is not installed.
        ValueError: There are no responses, or no results.
    """
    refuse_missing_inspect_ai()
    from inspect_ai.log import write_eval_log  # pyright: ignore[reportMissingImports]

    path = folder / "results.json"
    if not path.exists():
        raise ValueError(
            f"a folder to export must hold results.json, got none in {folder}: name one that "
            "`barl evaluate` wrote."
        )
    results = read_json(path, model=str)
    output_dir.mkdir(parents=True, exist_ok=True)
    written = []
    for name, problems in read_responses(folder, benchmarks).items():
        log = log_of(name, list(chain.from_iterable(problems.values())), results, path)
        created = log.eval.created.replace(":", "-")
        written.append(output_dir / f"{created}_{name}_{log.eval.task_id}.eval")
        write_eval_log(log, written[-1])
    return written


def log_of(
    name: str, responses: Sequence[Response], results: Mapping[str, Any], path: Path
) -> "EvalLog":
    """Return the log of a benchmark.

    Args:
        name: Its name.
        responses: In the order of problems and samples.
        results: What `results.json` says.
        path: That file.
    """
    from inspect_ai.log import (  # pyright: ignore[reportMissingImports]
        EvalConfig,
        EvalDataset,
        EvalLog,
        EvalResults,
        EvalSpec,
        EvalStats,
    )
    from inspect_ai.model import GenerateConfig  # pyright: ignore[reportMissingImports]

    runs, row = results.get("runs", []), results.get("benchmarks", {}).get(name)
    changed = datetime.fromtimestamp(path.stat().st_mtime, UTC).isoformat(timespec="seconds")
    started = runs[0]["date"] if runs else changed
    ids = list(dict.fromkeys(response.problem_id for response in responses))
    epochs = max(response.sample for response in responses) + 1
    text = json.dumps([results["model"], name, [vars(response) for response in responses]])
    task_id = hashlib.sha256(text.encode()).hexdigest()[:22]
    model, source = results["model"], (row or {}).get("source", {})
    samples = [_sample(response, results) for response in responses]
    return EvalLog(
        status="success" if row else "cancelled",  # a run that was killed has no results
        eval=EvalSpec(
            created=started,
            task=name,
            task_id=task_id,
            eval_id=task_id,
            run_id=task_id,
            dataset=EvalDataset(
                name=name, location=source.get("path"), samples=len(ids), sample_ids=ids
            ),
            model=model,
            model_args=results.get("model_init_kwargs") or {},
            model_generate_config=GenerateConfig(
                **{
                    option: results[option]
                    for option in ("temperature", "max_tokens", "seed", "top_p", "top_k")
                    if results.get(option) is not None
                }
            ),
            config=EvalConfig(epochs=epochs, epochs_reducer=["mean"]),
            packages=results.get("versions", {}),
            metadata={key: value for key, value in results.items() if key != "benchmarks"}
            | {"benchmark": row},
        ),
        results=EvalResults(
            total_samples=len(ids) * epochs,
            completed_samples=len(responses),
            scores=_scores(responses, results),
        ),
        stats=EvalStats(
            started_at=started,
            completed_at=changed,
            model_usage={model: _usage(sum(response.tokens for response in responses))},
        ),
        samples=samples,
    )


def _sample(response: Response, results: Mapping[str, Any]) -> "EvalSample":
    """Return a response as a sample's epoch; epochs are counted from 1."""
    from inspect_ai.log import EvalSample  # pyright: ignore[reportMissingImports]
    from inspect_ai.model import (  # pyright: ignore[reportMissingImports]
        ChatCompletionChoice,
        ChatMessageAssistant,
        ChatMessageUser,
        ModelOutput,
    )
    from inspect_ai.scorer import (  # pyright: ignore[reportMissingImports]
        CORRECT,
        INCORRECT,
        Score,
    )

    model = results["model"]
    message = ChatMessageAssistant(content=response.response, model=model, source="generate")
    choice = ChatCompletionChoice(
        message=message, stop_reason="max_tokens" if response.truncated else "stop"
    )
    usage = _usage(response.tokens)
    return EvalSample(
        id=response.problem_id,
        epoch=response.sample + 1,
        input=response.problem,
        target=response.solution,
        messages=[ChatMessageUser(content=response.prompt, source="input"), message],
        output=ModelOutput(model=model, choices=[choice], usage=usage),
        model_usage={model: usage},
        scores={
            _scorer(results): Score(
                value=CORRECT if response.reward else INCORRECT,
                answer=response.answer,
                explanation=response.reason,
            )
        },
    )


def _scores(responses: Sequence[Response], results: Mapping[str, Any]) -> list["EvalScore"]:
    """Return accuracy and pass@k over problems, with their standard errors."""
    from inspect_ai.log import EvalMetric, EvalScore  # pyright: ignore[reportMissingImports]

    summary, scorer = summarize(responses), _scorer(results)
    found = {"mean": {"mean": summary["accuracy"], "standard_error": summary["standard_error"]}}
    found |= {f"pass_at_{k}": value for k, value in summary["pass@k"].items() if k != "1"}
    return [
        EvalScore(
            name=scorer,
            scorer=scorer,
            reducer=reducer,
            scored_samples=summary["num_problems"],
            unscored_samples=0,
            metrics={
                metric: EvalMetric(name=metric, value=value[ours])
                for metric, ours in (("accuracy", "mean"), ("stderr", "standard_error"))
                if value[ours] is not None
            },
        )
        for reducer, value in found.items()
    ]


def _scorer(results: Mapping[str, Any]) -> str:
    return results.get("grader", {}).get("name", "grader")


def _usage(tokens: int) -> Any:
    from inspect_ai.model import ModelUsage  # pyright: ignore[reportMissingImports]

    return ModelUsage(output_tokens=tokens, total_tokens=tokens)
