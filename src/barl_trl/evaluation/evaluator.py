"""Evaluation of a model on benchmarks, from where an earlier run stopped."""

import os
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from statistics import fmean
from typing import Any
from zlib import crc32

import datasets
import transformers
from tqdm import tqdm

from ..graders import get_grader
from ..graders.choices import COLUMN as OPTIONS
from ..hypotheses import no_answer_advice
from ..rewards import callable_at, rollout_answers
from ..trainer.checks import CheckedFactory
from ..trainer.hub import limit_waiting
from ..trainer.redaction import redacted
from ..trainer.resume import one_writer
from ..trainer.turns import call_opening
from .benchmarks import Problem, Source, load_benchmarks, parse_benchmarks
from .generation import AGENT_ENGINE_FIELDS, Agent, Backend, Job, telling
from .json_files import write_json
from .provenance import TRAINED_BY, checkpoint_id, run_record
from .responses import Response, ResponseFile, read_response_file
from .results import open_results, summarize
from .templates import choose_template, read_tokenizer

_PACKAGES = ("barl-trl", "torch", "transformers", "trl", "datasets", "latex2sympy2_extended")
_RECORDED = (
    *("model", "backend", "max_tokens", "num_samples", "batch_size", "seed"),
    *("tools", "environment_factory", "max_tool_calling_iterations"),
)
"""Arguments that `results.json` records as they are."""


def evaluate(args: Any, command: Sequence[str]) -> dict[str, Any]:
    """Evaluate on all benchmarks, write everything to the output folder, and return `results.json`.

    `args` is an [`~barl_trl.commands.evaluate.EvaluateArguments`]; `command` is the command line,
    for the record. Of several processes, which play an agent's episodes together, the first one
    grades and writes. A KeyboardInterrupt says what is kept.
    """
    sources, folder = parse_benchmarks(args.benchmarks), Path(args.output_dir).absolute()
    _refuse_others_files(sources, folder)
    run = _Run(args)
    open_results(run.settings(), folder)  # refuses other settings, before benchmarks are loaded
    loaded = load_benchmarks(sources, limit=args.limit, keep_columns=run.agent is not None)
    if run.is_first:
        print(f"template: {run.template.name}")
    folder.mkdir(parents=True, exist_ok=True)
    opening, calls = call_opening(run.tokenizer, None), []
    with one_writer(folder) if run.is_first else nullcontext():
        run.start(command)
        try:
            for name, (problems, skipped) in loaded.items():
                responses = run.respond(name, problems)
                entry = {"source": asdict(sources[name]), "limit": args.limit, "skipped": skipped}
                if run.is_first:
                    entry |= summarize(responses, run.grader.equivalent)
                    calls += [opening in one.response for one in responses if opening]
                    run.save(benchmarks=run.results["benchmarks"] | {name: entry})
        except KeyboardInterrupt:
            kept = f"The responses so far are kept in {folder}. To go on: the same command."
            raise KeyboardInterrupt(kept) from None
        rows = run.results["benchmarks"].values()
        if run.is_first and run.grader.extraction == "boxed":
            sizes = [row["num_problems"] for row in rows]
            shares = [fmean([row[n] for row in rows], sizes) for n in ("no_answer", "truncated")]
            if advice := no_answer_advice(shares[0], min(shares), "max_tokens"):
                run.save(advice=advice)
        if run.agent is None and 5 * sum(calls) > len(calls):
            run.save(advice="responses call tools: name them, or the environment, as in training.")
    return run.results


class _Run:
    """A run: the tokenizer, prompts and grader; once started, also the model and the results."""

    def __init__(self, args: Any):
        limit_waiting()
        transformers.utils.logging.disable_progress_bar()  # this command has its own
        datasets.disable_progress_bars()
        self.args, self.folder, self.agent = args, Path(args.output_dir).absolute(), _agent(args)
        self.is_first = os.environ.get("RANK", "0") == "0"
        self.grader = get_grader(args.grader, args.extraction)
        names = ("revision", "trust_remote_code", "token")
        options = {name: args.init_kwargs[name] for name in names if name in args.init_kwargs}
        self.tokenizer = read_tokenizer(args.model, "model", **options)
        self.template = choose_template(
            args.template, self.tokenizer, args.system_prompt, args.chat_template_kwargs
        )
        if self.agent:
            self.template = telling(self.template, self.tokenizer, self.agent)

    def settings(self) -> dict[str, Any]:
        """Return the settings that `results.json` records: how the responses were made."""
        args, versions = self.args, {name: version(name) for name in _PACKAGES}
        if args.backend == "vllm":  # its builds are distributions of several names
            versions["vllm"] = import_module("vllm").__version__
        of_files = {name: args.init_kwargs.get(name) for name in ("revision", "token")}
        settings = {
            "checkpoint": checkpoint_id(args.model, **of_files),
            "model_init_kwargs": args.model_init_kwargs,
            "template": self.template.name,
            "system_prompt": self.template.system_prompt,
            "chat_template_kwargs": args.chat_template_kwargs,
            **args.drawing._asdict(),
            **{name: getattr(args, name) for name in _RECORDED},
            "grader": self.grader.label,
            "trained_by": self.tokenizer.init_kwargs.get(TRAINED_BY),
            "versions": versions,
        }
        return redacted(settings)

    def start(self, command: Sequence[str]) -> None:
        """Load the model, and begin or go on with the results."""
        args = self.args
        self.results = open_results(self.settings(), self.folder)
        self.backend = Backend(
            args.model,
            self.tokenizer,
            self.template.end_ids(self.tokenizer),
            args.drawing,
            max_tokens=args.max_tokens,
            batch_size=args.batch_size,
            use_vllm=args.backend == "vllm",
            template=self.template,
            agent=self.agent,
            **args.init_kwargs,
        )
        self.save()  # not before the model is loaded, which may fail
        self._record = [run_record(command, self.backend.describe())]

    def save(self, **entries: Any) -> None:
        """Add entries to `results.json`, and write it."""
        self.results |= redacted(entries)
        if self.is_first:
            write_json(self.folder / "results.json", self.results)

    def respond(self, name: str, problems: Sequence[Problem]) -> list[Response]:
        """Generate and grade the responses that a benchmark lacks, and return all of them.

        They are in the order of problems and samples. A ValueError says that the earlier run had
        other problems or prompts, or drew tokens otherwise.
        """
        file = ResponseFile(self.folder / f"{name}.jsonl", is_writer=self.is_first)
        asked = {
            one.id: (one.text, one.solution, self.template.prompt(self.tokenizer, one.text))
            for one in problems
        }
        for (i, _), one in file.responses.items():
            is_other = asked.get(i) not in (None, (one.problem, one.solution, one.prompt))
            if is_other or one.drawing not in (None, self.args.drawing.settings):
                raise ValueError(
                    f"{self.folder} must have responses to the same problems, drawn alike, got "
                    f"another problem or prompt {i} in {name}, or another temperature or cut-off: "
                    "choose another output_dir."
                )
        jobs = [
            Job(
                (problem.id, sample),
                self.template.encode(self.tokenizer, asked[problem.id][-1]),
                # the seed differs between samples but not between machines
                crc32(f"{self.args.seed} {name} {(problem.id, sample)}".encode()),
                problem,
            )
            for problem in problems
            for sample in range(self.args.num_samples)
        ]
        done = set(file.responses)
        count = sum(job.key in done for job in jobs)
        if count < len(jobs):
            self.save(runs=self.results["runs"] + self._record)
            self._record = []
        with tqdm(desc=name, total=len(jobs), initial=count, disable=not self.is_first) as bar:
            for batch in self.backend.complete(jobs, done):
                if self.is_first:
                    new = [(job, made) for job, made in batch if job.key not in done]
                    prompts = [asked[job.problem.id][-1] for job, _ in new]
                    file.append(self._graded(name, new, prompts))
                    bar.update(len(new))
        return [file.responses[job.key] for job in jobs] if self.is_first else []

    def _graded(
        self, name: str, new: Sequence[tuple[Job, Any]], prompts: Sequence[str]
    ) -> list[Response]:
        told = [made.completion for _, made in new], [made.given_answer for _, made in new]
        options = [job.problem.columns.get(OPTIONS) for job, _ in new]
        answers = rollout_answers(told[0], self.grader.extract_answer, told[1], options)
        pairs = [(job.problem.solution, a) for (job, _), a in zip(new, answers, strict=True)]
        verdicts: Any = self.grader.grade(pairs)
        return [
            Response(
                benchmark=name,
                problem_id=job.problem.id,
                sample=job.key[1],
                problem=job.problem.text,
                solution=job.problem.solution,
                prompt=prompt,
                response=made.text,
                tokens=made.num_tokens,
                truncated=made.is_cut_off,
                answer=answer,
                reward=float(verdict.correct),
                reason=verdict.reason,
                drawing=self.args.drawing.settings,
                messages=[*made.prompt, *made.completion] if self.agent else None,
                token_ids=made.token_ids if self.agent else None,
                own_tokens=made.own_tokens if self.agent else None,
            )
            for (job, made), prompt, answer, verdict in zip(
                new, prompts, answers, verdicts, strict=True
            )
        ]


def _agent(args: Any) -> Agent | None:
    """Return what TRL's loop plays with, if the options name any; refuse what cannot be started."""
    processes, uses_vllm = int(os.environ.get("WORLD_SIZE", 1)), args.backend == "vllm"
    factory, is_agent = args.environment_factory, args.tools or args.environment_factory
    names = ("ACCELERATE_USE_FSDP", "ACCELERATE_USE_DEEPSPEED")
    is_sharded = any(os.environ.get(name, "false") != "false" for name in names)
    unknown = sorted(args.init_kwargs.keys() - AGENT_ENGINE_FIELDS.keys())
    if uses_vllm and find_spec("vllm") is None:
        raise ImportError("--backend vllm needs vLLM: `pip install 'barl-trl[vllm]'`.")
    if is_sharded or (processes > 1 and (uses_vllm or not is_agent)):
        raise ValueError(
            "barl evaluate must be one process, which spreads the model over all GPUs; only "
            "episodes of agents without vLLM are shared, and no model is sharded."
        )
    if uses_vllm and is_agent and unknown:  # TRL's loop makes the engine
        raise ValueError(
            f"model_init_kwargs must be of {', '.join(AGENT_ENGINE_FIELDS)} with vllm and tools, "
            f"got {', '.join(unknown)}."
        )
    tools = [callable_at(one, "tools") for one in args.tools or ()]
    made = factory and CheckedFactory(callable_at(factory, "environment_factory"))
    return Agent(tools, made, args.max_tool_calling_iterations) if is_agent else None


def _refuse_others_files(sources: Mapping[str, Source], folder: Path) -> None:
    """Refuse to write to a benchmark's own file, and to continue a file without results."""
    files, results = [folder / f"{name}.jsonl" for name in sources], folder / "results.json"
    inputs = [path for source in sources.values() if (path := Path(source.path)).exists()]
    for output in filter(Path.exists, [folder, results, *files]):
        if any(output.samefile(path) for path in inputs):
            raise ValueError(f"no output may be an input, got {output} for both.")
    for path in filter(Path.exists, files):
        read_response_file(path)
        if not results.exists():
            raise ValueError(f"output_dir must have results.json beside {path}: name another.")
