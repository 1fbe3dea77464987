"""`barl evaluate`: accuracy of a model on benchmarks, and every response it was computed from."""

import sys
from collections.abc import Sequence
from dataclasses import asdict
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

import datasets
import transformers
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from transformers import AutoTokenizer
from trl import TrlParser

from .evaluate_arguments import EvaluateArguments
from .evaluation.benchmarks import Problem, load_benchmark, parse_benchmarks
from .evaluation.checkpoints import checkpoint_id
from .evaluation.generation import BACKENDS, Backend, Completion, Job, refuse_missing_vllm, seed_of
from .evaluation.results import (
    Response,
    ResponseFile,
    open_results,
    summarize,
    table_rows,
    write_results,
)
from .evaluation.templates import Template, choose_template
from .graders import Grader, Verdict, get_grader
from .refusals import refuse_missing_folder


def settings_of(args: EvaluateArguments, template: Template, grader: Grader) -> dict[str, Any]:
    """What `results.json` says of how the responses were made."""
    packages = ("barl-trl", "torch", "transformers", "trl", "datasets", "math-verify")
    versions = {name: version(name) for name in packages}
    if args.backend == "vllm":  # its builds are distributions of several names
        versions["vllm"] = import_module("vllm").__version__
    return {
        "model": args.model,
        "checkpoint": checkpoint_id(args.model, args.init_kwargs.get("revision")),
        "backend": args.backend,
        "model_init_kwargs": args.model_init_kwargs,
        "template": template.name,
        "temperature": args.temperature,
        "max_tokens": args.max_tokens,
        "num_samples": args.num_samples,
        "batch_size": args.batch_size,
        "seed": args.seed,
        "grader": grader.label,
        "versions": versions,
    }


def grade(grader: Grader, solutions: Sequence[str], texts: Sequence[str]) -> list[tuple]:
    """The answer of each response, None without one, and the verdict on it."""
    answers = [grader.extract_answer(text) for text in texts]
    pairs = list(zip(solutions, answers, strict=True))
    judged = grader.verify_all((s, a) for s, a in pairs if a is not None)
    return [(a, Verdict(False, "no answer") if a is None else judged[s, a]) for s, a in pairs]


class Evaluator:
    """Generates and grades the responses to benchmarks.

    Args:
        args: The settings.
        backend: Generates.
        tokenizer: The model's.
        template: Makes prompts.
        grader: Judges.
    """

    def __init__(
        self,
        args: EvaluateArguments,
        backend: Backend,
        tokenizer,
        template: Template,
        grader: Grader,
    ):
        self.args, self.backend, self.tokenizer = args, backend, tokenizer
        self.template, self.grader = template, grader

    def run(self, name: str, problems: Sequence[Problem], progress: Progress) -> list[Response]:
        """The responses to a benchmark: those of an earlier run, and the missing ones.

        Raises:
            ValueError: The earlier run had other problems or prompts.
        """
        file = ResponseFile(Path(self.args.output_dir, f"{name}.jsonl"))
        by_id = {problem.id: problem for problem in problems}
        prompts = {i: self.template.prompt(self.tokenizer, p.text) for i, p in by_id.items()}
        for key, response in file.responses.items():
            if key[0] in by_id and (response.prompt, response.solution) != (
                prompts[key[0]],
                by_id[key[0]].solution,
            ):
                raise ValueError(
                    f"benchmarks must hold the problems that {self.args.output_dir} has responses "
                    f"to, got another problem or prompt {key[0]} in {name}: choose another "
                    "output_dir."
                )
        keys = [(i, sample) for i in by_id for sample in range(self.args.num_samples)]
        jobs = [
            Job(
                key,
                self.template.encode(self.tokenizer, prompts[key[0]]),
                seed_of(self.args.seed, name, key),
            )
            for key in keys
        ]
        done = set(file.responses)
        task = progress.add_task(name, total=len(keys), completed=len(done.intersection(keys)))
        for batch in self.backend.complete(jobs, done):
            new = [(job, completion) for job, completion in batch if job.key not in done]
            file.append(self._responses(name, by_id, prompts, new))
            progress.advance(task, len(new))
        return [file.responses[key] for key in keys]

    def _responses(
        self,
        benchmark: str,
        problems: dict[int, Problem],
        prompts: dict[int, str],
        batch: Sequence[tuple[Job, Completion]],
    ) -> list[Response]:
        texts = [
            self.tokenizer.decode(completion.token_ids, skip_special_tokens=True)
            for _, completion in batch
        ]
        solutions = [problems[job.key[0]].solution for job, _ in batch]
        graded = grade(self.grader, solutions, texts)
        return [
            Response(
                benchmark=benchmark,
                problem_id=job.key[0],
                sample=job.key[1],
                problem=problems[job.key[0]].text,
                solution=solution,
                prompt=prompts[job.key[0]],
                response=text,
                tokens=len(completion.token_ids),
                truncated=completion.truncated,
                answer=answer,
                reward=float(verdict.correct),
                reason=verdict.reason,
            )
            for (job, completion), solution, text, (answer, verdict) in zip(
                batch, solutions, texts, graded, strict=True
            )
        ]


def run(args: EvaluateArguments) -> dict[str, Any]:
    """Evaluates on all benchmarks, and writes everything to the output folder.

    Returns:
        The results, as in `results.json`.
    """
    if args.backend == "vllm":
        refuse_missing_vllm()
    refuse_missing_folder("model", args.model)
    grader = get_grader(args.grader)
    sources = parse_benchmarks(args.benchmarks)
    tokenizer = AutoTokenizer.from_pretrained(args.model, revision=args.init_kwargs.get("revision"))
    template = choose_template(args.template, tokenizer)
    output_dir = Path(args.output_dir)
    results = open_results(settings_of(args, template, grader), output_dir)
    loaded = {name: load_benchmark(source, limit=args.limit) for name, source in sources.items()}
    output_dir.mkdir(parents=True, exist_ok=True)
    console = Console()
    console.print(f"template: {template.name}", highlight=False)
    backend = BACKENDS[args.backend](
        args.model,
        end_ids=template.end_ids(tokenizer),
        max_tokens=args.max_tokens,
        temperature=args.temperature,
        batch_size=args.batch_size,
        **args.init_kwargs,
    )
    write_results(results, output_dir)  # not before the model is there: a next try may differ
    evaluator = Evaluator(args, backend, tokenizer, template, grader)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console) as progress:
        for name, (problems, skipped) in loaded.items():
            responses = evaluator.run(name, problems, progress)
            results["benchmarks"][name] = {
                "source": asdict(sources[name]),
                "limit": args.limit,
                "skipped": skipped,
                **summarize(responses),
            }
            write_results(results, output_dir)
    return results


def show(results: dict[str, Any], output_dir: str) -> None:
    """Prints the results as a table."""
    temperature = results["temperature"]
    how = f"temperature {temperature:g}" if temperature else "greedy"
    table = Table(title=f"{Path(results['model']).name}, {how}")
    rows = table_rows(results)
    for column in rows[0]:
        table.add_column(column, justify="left" if column == "benchmark" else "right")
    for row in rows:
        table.add_row(*row.values())
    console = Console()
    console.print(table)
    names = ", ".join(f"{name}.jsonl" for name in results["benchmarks"])
    console.print(
        f"{results['grader']['name']} grader, at most {results['max_tokens']} tokens. "
        f"In {output_dir}: {names}, results.json, results.md.",
        highlight=False,
    )


def main(argv: list[str] | None = None) -> None:
    """Parses options, [`run`]s and [`show`]s."""
    transformers.utils.logging.disable_progress_bar()  # this command has its own
    datasets.disable_progress_bars()
    arguments: Any = (EvaluateArguments,)
    parser = TrlParser(arguments, prog="barl evaluate")
    try:
        (args,) = parser.parse_args_and_config(argv)
        results = run(args)
    except (ValueError, ImportError, OSError) as error:
        sys.exit(f"barl evaluate: {error}")
    show(results, args.output_dir)


if __name__ == "__main__":
    main()
