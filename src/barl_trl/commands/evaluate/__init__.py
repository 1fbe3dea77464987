"""`barl evaluate`: accuracy of a model on benchmarks, and every response it was computed from."""

import os
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from functools import partial
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from statistics import fmean
from typing import Any

from ...evaluation.benchmarks import Source, load_benchmarks, parse_benchmarks
from ...evaluation.generation.decoding import AGENT_ENGINE_FIELDS
from ...evaluation.generation.templates import Template, choose_template
from ...evaluation.responses import read_response_file
from ...evaluation.results import open_results, summarize, table_rows
from ...evaluation.statistics.several_samples import sample_rows
from ...graders import Grader, get_grader
from ...hypotheses import no_answer_advice
from ...report.json_files import write_json
from ...trainer.checkpoints.output_folder import one_writer, refuse_unmakeable
from ...trainer.checks.environment import named, refuse_missing_vllm, refuse_unusable_folder
from ...trainer.hub.redaction import redacted
from ..shell.console import (
    mistakes_in_one_line,
    print_note,
    print_table,
    progress_bar,
    refuse_overwriting,
)
from ..shell.interruption import kept
from ..shell.options import RecipeParser
from ..shell.parsers import is_first_process
from .arguments import EvaluateArguments


def main(argv: list[str]) -> None:
    """Parse options, evaluate, and print the results."""
    arguments: Any = (EvaluateArguments,)
    with mistakes_in_one_line("barl evaluate", are_everywhere=True):
        (args,) = RecipeParser(arguments, prog="barl evaluate").parse_args_and_config(argv)
        results = _run(args, ["barl", "evaluate", *argv])
    if not is_first_process():
        return
    print_table(
        f"{Path(results['model']).name}, {args.drawing}", table_rows(results), align="right"
    )
    samples = sample_rows(results)
    if samples:
        print_table("Samples of each problem, in %", samples, align="right")
    names = ", ".join(f"{name}.jsonl" for name in results["benchmarks"])
    print_note(
        f"{results['grader']['name']} grader, at most {results['max_tokens']} tokens. "
        f"In {args.output_dir}: {names}, results.json."
    )
    if "advice" in results:
        print_note(results["advice"])


def _run(args: EvaluateArguments, command: Sequence[str]) -> dict[str, Any]:
    """Evaluate on all benchmarks, write everything to the output folder, and return `results.json`.

    The command line is for the record. Of several processes the first one writes and returns it.
    """
    if args.backend == "vllm":
        refuse_missing_vllm("backend must be transformers", "vllm")
    refuse_unusable_folder("model", args.model)
    grader = get_grader(args.grader, args.extraction)
    sources, output_dir = parse_benchmarks(args.benchmarks), Path(args.output_dir)
    _refuse_others_files(sources, output_dir)
    refuse_unmakeable(output_dir)
    agent: dict[str, Any] = _agent(args) if args.is_agent else {}
    if not agent and _num_processes() > 1:
        raise ValueError(
            f"barl evaluate must run as one process without tools, got {_num_processes()}: start "
            "it without a launcher. It spreads the model over all GPUs."
        )

    # these imports take seconds, and the mistakes above are reported without them
    import datasets
    import transformers
    from transformers import AutoTokenizer

    from ...evaluation.evaluator import evaluate
    from ...evaluation.generation.backends import BACKENDS, Decoding

    transformers.utils.logging.disable_progress_bar()  # this command has its own
    datasets.disable_progress_bars()
    with named("model", args.model):
        names = ("revision", "trust_remote_code", "token")
        of_files = {name: args.init_kwargs[name] for name in names if name in args.init_kwargs}
        tokenizer = AutoTokenizer.from_pretrained(args.model, **of_files)
    variables: Any = args.chat_template_kwargs
    template = choose_template(args.template, tokenizer, args.system_prompt, variables)
    make_backend: Any = BACKENDS[args.backend]
    if agent:
        from ...evaluation.generation.agents import AgentBackend, telling_of_tools

        template = telling_of_tools(template, tokenizer, **agent)
        make_backend = partial(
            AgentBackend,
            template=template,
            tokenizer=tokenizer,
            **agent,
            max_tool_calling_iterations=args.max_tool_calling_iterations,
            use_vllm=args.backend == "vllm",
        )
    settings = _settings_of(args, tokenizer, template, grader)
    # refuses results of other settings, before benchmarks are loaded
    for name, row in open_results(settings, output_dir)["benchmarks"].items():
        if name in sources and args.limit is not None and args.limit < row["num_problems"]:
            raise ValueError(
                f"limit must be at least {row['num_problems']}, got {args.limit}: {output_dir} has "
                f"responses to that many problems of {name}. Name another output_dir."
            )
    loaded = load_benchmarks(sources, limit=args.limit, keep_columns=args.is_agent)
    is_first = is_first_process()
    if is_first:
        print_note(f"template: {template.name}")
    end_ids = template.end_ids(tokenizer)
    decoding = Decoding(end_ids, args.max_tokens, args.drawing, args.batch_size)
    output_dir.mkdir(parents=True, exist_ok=True)
    path, so_far = output_dir / "results.json", f"The responses so far are kept in {output_dir}."
    with ExitStack() as stack:
        if is_first:
            stack.enter_context(one_writer(output_dir))
        stack.enter_context(kept(lambda: (so_far, "")))
        progress = stack.enter_context(progress_bar(is_shown=is_first))
        results = open_results(settings, output_dir)
        backend = make_backend(args.model, decoding, **args.init_kwargs)
        save = partial(write_json, path) if is_first else lambda results: None
        save(results)  # not before the model is loaded, which may fail
        from ...evaluation.provenance import run_record

        this_run = [run_record(command, backend.describe())]

        def advance(task: Any, done: int, total: int) -> None:
            if done < total and this_run:  # there are responses to generate
                results["runs"].append(this_run.pop())
                save(results)
            progress.update(task, completed=done, total=total)

        for name, (problems, skipped) in loaded.items():
            responses = evaluate(
                name,
                problems,
                backend=backend,
                tokenizer=tokenizer,
                template=template,
                grader=grader,
                output_dir=output_dir,
                num_samples=args.num_samples,
                seed=args.seed,
                drawing=args.drawing,
                progress=partial(advance, progress.add_task(name)),
                is_writer=is_first,
            )
            if not is_first:
                continue
            results["benchmarks"][name] = {
                "source": asdict(sources[name]),
                "limit": args.limit,
                "skipped": skipped,
                **summarize(responses, grader.equivalent),
            }
            save(results)
        if is_first and grader.extraction == "boxed":
            summaries = results["benchmarks"].values()
            sizes = [summary["num_problems"] for summary in summaries]
            shares = [summary["no_answer"] for summary in summaries]
            advice = no_answer_advice(fmean(shares, sizes))
            if advice:
                results["advice"] = advice
                save(results)
    return results


def _num_processes() -> int:
    """Return the number of processes of a launch."""
    return int(os.environ.get("WORLD_SIZE", 1))


def _agent(args: EvaluateArguments) -> dict[str, Any]:
    """Return the tools and the environment that the options name; refuse what TRL cannot play."""
    from ...rewards import callable_at

    for name in ("ACCELERATE_USE_FSDP", "ACCELERATE_USE_DEEPSPEED"):
        if os.environ.get(name, "false") != "false":
            raise ValueError(
                f"barl evaluate must have the whole model in each process, got {name}="
                f"{os.environ[name]}: start it without sharding, for instance under `accelerate "
                "launch --multi_gpu`. One process alone spreads the model over all GPUs."
            )
    if args.backend == "vllm":
        if _num_processes() > 1:
            raise ValueError(
                f"backend must be 'transformers' on {_num_processes()} processes, got 'vllm': each "
                "would start an engine of its own. Start one process."
            )
        unknown = sorted(args.init_kwargs.keys() - AGENT_ENGINE_FIELDS.keys())
        if unknown:
            raise ValueError(
                f"model_init_kwargs must be of {', '.join(AGENT_ENGINE_FIELDS)} with vllm and "
                f"tools, got {', '.join(unknown)}: TRL's loop makes the engine, and hands on no "
                "others. Leave them out, or choose --backend transformers."
            )
    path = args.environment_factory
    return {
        "tools": [callable_at(path, "tools") for path in args.tools or ()],
        "environment_factory": path and callable_at(path, "environment_factory"),
    }


def _refuse_others_files(sources: Mapping[str, Source], output_dir: Path) -> None:
    """Refuse to write to a benchmark's own file, and to continue a file without responses."""
    files = {output_dir / f"{name}.jsonl" for name in sources}
    results = output_dir / "results.json"
    refuse_overwriting([output_dir, *files, results], [source.path for source in sources.values()])
    for path in filter(Path.exists, files):
        read_response_file(path)
        if not results.exists():
            raise ValueError(
                f"output_dir must have results.json beside {path}, which names the model, got none "
                "in it: name another output_dir."
            )


def _settings_of(
    args: EvaluateArguments, tokenizer: Any, template: Template, grader: Grader
) -> dict[str, Any]:
    """Return the settings that `results.json` records: how the responses were made."""
    from ...evaluation.checkpoints import TRAINED_BY, checkpoint_id

    packages = ("barl-trl", "torch", "transformers", "trl", "datasets", "latex2sympy2_extended")
    versions = {name: version(name) for name in packages}
    if args.backend == "vllm":  # its builds are distributions of several names
        versions["vllm"] = import_module("vllm").__version__
    return {
        "model": args.model,
        "checkpoint": checkpoint_id(
            args.model, args.init_kwargs.get("revision"), token=args.init_kwargs.get("token")
        ),
        "backend": args.backend,
        "model_init_kwargs": redacted(args.model_init_kwargs),
        "template": template.name,
        "system_prompt": template.system_prompt,
        "chat_template_kwargs": redacted(args.chat_template_kwargs),
        **args.drawing._asdict(),
        "max_tokens": args.max_tokens,
        "num_samples": args.num_samples,
        "batch_size": args.batch_size,
        "seed": args.seed,
        "grader": grader.label,
        "tools": args.tools,
        "environment_factory": args.environment_factory,
        "max_tool_calling_iterations": args.max_tool_calling_iterations,
        "trained_by": tokenizer.init_kwargs.get(TRAINED_BY),
        "versions": versions,
    }
run = main
