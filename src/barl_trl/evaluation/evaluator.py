"""Evaluation of a model on benchmarks, from where an earlier run stopped."""

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from functools import partial
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

from ..graders import Grader, get_grader
from ..hypotheses import no_answer_advice
from ..rewards import callable_at
from ..trainer.hub import redacted
from ..trainer.resume import one_writer
from .benchmarks import Problem, Source, load_benchmarks, parse_benchmarks
from .generation import AGENT_ENGINE_FIELDS, Agent, Backend, Job, telling
from .json_files import write_json
from .provenance import TRAINED_BY, checkpoint_id, run_record
from .responses import Response, ResponseFile, read_response_file
from .results import open_results, summarize
from .templates import Template, choose_template

_PACKAGES = ("barl-trl", "torch", "transformers", "trl", "datasets", "latex2sympy2_extended")
_OF_FILES = ("revision", "trust_remote_code", "token")


@dataclass
class Evaluator:
    """Generates and grades the responses to benchmarks.

    Attributes:
        backend: Generates the responses: a [`~.generation.Backend`].
        tokenizer: The model's tokenizer.
        template: Makes the prompts.
        grader: Reads and judges the answers.
        folder: Folder of the response files.
        num_samples: Number of responses to each problem.
        seed: Seed of all samples.
        drawing: How the backend draws tokens. It is noted with every response.
        is_writer: Whether this process grades and writes. Of processes that generate together, one
            does; the others return nothing.
    """

    backend: Any
    tokenizer: Any
    template: Template
    grader: Grader
    folder: Path
    num_samples: int
    seed: int
    drawing: Mapping[str, float] | None = None
    is_writer: bool = True

    def respond(
        self, name: str, problems: Sequence[Problem], begin: Callable[[], object]
    ) -> list[Response]:
        """Generate and grade the responses that a benchmark lacks, and return all of them.

        They are in the order of problems and samples.

        Args:
            name: The benchmark's name, also of its file in the folder.
            problems: The benchmark's problems.
            begin: Called if there is something to generate.

        Raises:
            ValueError: The earlier run had other problems or prompts, or drew tokens otherwise.
        """
        file = ResponseFile(self.folder / f"{name}.jsonl", is_writer=self.is_writer)
        by_id = {problem.id: problem for problem in problems}
        prompts = {i: self.template.prompt(self.tokenizer, one.text) for i, one in by_id.items()}
        self._refuse_others(name, file, by_id, prompts)
        keys = [(i, sample) for i in by_id for sample in range(self.num_samples)]
        jobs = [
            Job(
                key,
                self.template.encode(self.tokenizer, prompts[key[0]]),
                # the seed differs between samples but not between machines
                crc32(f"{self.seed} {name} {key}".encode()),
                by_id[key[0]],
            )
            for key in keys
        ]
        done = set(file.responses)
        count = len(done.intersection(keys))
        if count < len(keys):
            begin()
        with tqdm(desc=name, total=len(keys), initial=count, disable=not self.is_writer) as bar:
            for batch in self.backend.complete(jobs, done):
                if self.is_writer:
                    new = [(job, made) for job, made in batch if job.key not in done]
                    file.append(self._graded(name, new, prompts))
                    bar.update(len(new))
        return [file.responses[key] for key in keys] if self.is_writer else []

    def _refuse_others(
        self,
        name: str,
        file: ResponseFile,
        by_id: Mapping[int, Problem],
        prompts: Mapping[int, str],
    ) -> None:
        """Refuse responses to other problems or prompts, or drawn otherwise."""
        for (i, _), response in file.responses.items():
            asked = response.problem, response.solution, response.prompt
            if i in by_id and asked != (by_id[i].text, by_id[i].solution, prompts[i]):
                raise ValueError(
                    f"benchmarks must hold the problems that {self.folder} has responses to, got "
                    f"another problem or prompt {i} in {name}: choose another output_dir."
                )
            if response.drawing not in (None, self.drawing):
                raise ValueError(
                    f"responses must be drawn as those to {name} in {self.folder}, by "
                    f"{response.drawing}, got {self.drawing}: choose another output_dir."
                )

    def _graded(
        self, name: str, new: Sequence[tuple[Any, Any]], prompts: Mapping[int, str]
    ) -> list[Response]:
        answers = [made.answer(self.grader.extract_answer) for _, made in new]
        pairs = [(job.problem.solution, a) for (job, _), a in zip(new, answers, strict=True)]
        verdicts: Any = self.grader.grade(pairs)
        return [
            Response(
                benchmark=name,
                problem_id=job.problem.id,
                sample=job.key[1],
                problem=job.problem.text,
                solution=job.problem.solution,
                prompt=prompts[job.problem.id],
                response=made.text,
                tokens=made.num_tokens,
                truncated=made.truncated,
                answer=answer,
                reward=float(verdict.correct),
                reason=verdict.reason,
                drawing=self.drawing,
                messages=made.messages,
                token_ids=made.token_ids if made.own_tokens is not None else None,
                own_tokens=made.own_tokens,
            )
            for (job, made), answer, verdict in zip(new, answers, verdicts, strict=True)
        ]


def evaluate(args: Any, command: Sequence[str], say: Callable[[str], None]) -> dict[str, Any]:
    """Evaluate on all benchmarks, write everything to the output folder, and return `results.json`.

    Of several processes the first one writes and returns it.

    Args:
        args: An [`~barl_trl.commands.evaluate.EvaluateArguments`].
        command: The command line, for the record.
        say: Prints a line.

    Raises:
        ImportError: vLLM is asked for, and is not installed.
        ValueError: An argument does not fit the others, the model, the data or the output folder.
        KeyboardInterrupt: Ctrl-C; it says what is kept.
    """
    grader = get_grader(args.grader, args.extraction)
    sources, folder = parse_benchmarks(args.benchmarks), Path(args.output_dir)
    _refuse_others_files(sources, folder)
    agent: Any = _agent(args)
    tokenizer = _tokenizer(args)
    template = choose_template(
        args.template, tokenizer, args.system_prompt, args.chat_template_kwargs
    )
    if agent:
        template = telling(template, tokenizer, *agent)
    settings = _settings(args, tokenizer, template, grader)
    # refuses results of other settings, before benchmarks are loaded
    for name, row in open_results(settings, folder)["benchmarks"].items():
        if name in sources and args.limit is not None and args.limit < row["num_problems"]:
            raise ValueError(
                f"limit must be at least {row['num_problems']}, got {args.limit}: {folder} has "
                f"responses to that many problems of {name}. Name another output_dir."
            )
    loaded = load_benchmarks(sources, limit=args.limit, keep_columns=bool(agent))
    is_first = os.environ.get("RANK", "0") == "0"
    if is_first:
        say(f"template: {template.name}")
    folder.mkdir(parents=True, exist_ok=True)
    with one_writer(folder) if is_first else nullcontext():
        results = open_results(settings, folder)
        save = partial(write_json, folder / "results.json", results) if is_first else lambda: None
        evaluator = Evaluator(
            Backend(
                args.model,
                tokenizer,
                template.end_ids(tokenizer),
                args.drawing,
                max_tokens=args.max_tokens,
                batch_size=args.batch_size,
                use_vllm=args.backend == "vllm",
                agent=Agent(template, agent[0], agent[1], args.max_tool_calling_iterations)
                if agent
                else None,
                **args.init_kwargs,
            ),
            tokenizer,
            template,
            grader,
            folder,
            args.num_samples,
            args.seed,
            args.drawing.settings,
            is_writer=is_first,
        )
        save()  # not before the model is loaded, which may fail
        try:
            for name, entry in _entries(evaluator, loaded, command, results, save):
                asked = {"source": asdict(sources[name]), "limit": args.limit}
                results["benchmarks"][name] = asked | entry
                save()
        except KeyboardInterrupt:
            kept = f"The responses so far are kept in {folder}. To go on: the same command."
            raise KeyboardInterrupt(kept) from None
        rows = results["benchmarks"].values()
        if is_first and grader.extraction == "boxed":
            sizes = [row["num_problems"] for row in rows]
            if advice := no_answer_advice(fmean([row["no_answer"] for row in rows], sizes)):
                results["advice"] = advice
                save()
    return results


def _entries(
    evaluator: Evaluator,
    loaded: Mapping[str, Any],
    command: Sequence[str],
    results: dict[str, Any],
    save: Callable[[], None],
) -> Any:
    """Yield each benchmark's entry in `results.json`; note this run if it generates anything."""
    this_run = [run_record(command, evaluator.backend.describe())]

    def begin() -> None:
        results["runs"] += this_run
        this_run.clear()
        save()

    for name, (problems, skipped) in loaded.items():
        responses = evaluator.respond(name, problems, begin)
        if evaluator.is_writer:
            summary = summarize(responses, evaluator.grader.equivalent)
            yield name, {"skipped": skipped, **summary}


def _tokenizer(args: Any) -> Any:
    transformers.utils.logging.disable_progress_bar()  # this command has its own
    datasets.disable_progress_bars()
    options = {name: args.init_kwargs[name] for name in _OF_FILES if name in args.init_kwargs}
    try:
        return transformers.AutoTokenizer.from_pretrained(args.model, **options)
    except (OSError, ValueError) as error:
        why = " ".join(str(error).split())
        raise ValueError(f"model must be one that can be read, got {args.model!r}: {why}") from None


def _agent(args: Any) -> tuple[Any, ...] | None:
    """Return tools and environment, if the options name any; refuse what cannot be started."""
    processes, uses_vllm = int(os.environ.get("WORLD_SIZE", 1)), args.backend == "vllm"
    is_agent = args.tools or args.environment_factory
    sharding = ("ACCELERATE_USE_FSDP", "ACCELERATE_USE_DEEPSPEED")
    if uses_vllm and find_spec("vllm") is None:
        raise ImportError("--backend vllm needs vLLM: `pip install 'barl-trl[vllm]'`.")
    if processes > 1 and (uses_vllm or not is_agent):
        raise ValueError(
            f"barl evaluate must be one process, got {processes}: only episodes of agents without "
            "vLLM are shared. One process alone spreads the model over all GPUs."
        )
    if any(os.environ.get(name, "false") != "false" for name in sharding):
        raise ValueError("barl evaluate must have the whole model in each process: do not shard.")
    if not is_agent:
        return None
    unknown = sorted(args.init_kwargs.keys() - AGENT_ENGINE_FIELDS.keys())
    if uses_vllm and unknown:
        raise ValueError(
            f"model_init_kwargs must be of {', '.join(AGENT_ENGINE_FIELDS)} with vllm and tools, "
            f"got {', '.join(unknown)}: TRL's loop makes the engine, and hands on no others."
        )
    path = args.environment_factory
    tools = [callable_at(one, "tools") for one in args.tools or ()]
    return tools, path and callable_at(path, "environment_factory")


def _refuse_others_files(sources: Mapping[str, Source], folder: Path) -> None:
    """Refuse to write to a benchmark's own file, and to continue a file without results."""
    files, results = [folder / f"{name}.jsonl" for name in sources], folder / "results.json"
    inputs = [path for source in sources.values() if (path := Path(source.path)).exists()]
    for output in filter(Path.exists, [folder, results, *files]):
        if any(output.samefile(path) for path in inputs):
            raise ValueError(
                f"no output may be an input, got {output} for both: name another output_dir."
            )
    for path in filter(Path.exists, files):
        read_response_file(path)
        if not results.exists():
            raise ValueError(
                f"output_dir must have results.json beside {path}, which names the model, got none "
                "in it: name another output_dir."
            )


def _settings(args: Any, tokenizer: Any, template: Template, grader: Grader) -> dict[str, Any]:
    """Return the settings that `results.json` records: how the responses were made."""
    versions = {name: version(name) for name in _PACKAGES}
    if args.backend == "vllm":  # its builds are distributions of several names
        versions["vllm"] = import_module("vllm").__version__
    of_files = {name: args.init_kwargs.get(name) for name in ("revision", "token")}
    return {
        "model": args.model,
        "checkpoint": checkpoint_id(args.model, **of_files),
        "backend": args.backend,
        "model_init_kwargs": redacted(args.model_init_kwargs),
        "template": template.name,
        "system_prompt": template.system_prompt,
        "chat_template_kwargs": redacted(args.chat_template_kwargs),
        **args.drawing._asdict(),
        **{name: getattr(args, name) for name in ("max_tokens", "num_samples", "batch_size")},
        "seed": args.seed,
        "grader": grader.label,
        "tools": args.tools,
        "environment_factory": args.environment_factory,
        "max_tool_calling_iterations": args.max_tool_calling_iterations,
        "trained_by": tokenizer.init_kwargs.get(TRAINED_BY),
        "versions": versions,
    }
