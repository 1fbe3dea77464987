"""`barl evaluate`: accuracy of a model on benchmarks, and every response it was computed from."""

import os
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from typing import Any, Literal

from ..evaluation.benchmarks import BENCHMARKS
from ..evaluation.evaluator import evaluate
from ..evaluation.generation import NO_CUT_OFF, Drawing
from ..evaluation.results import sample_rows, table_rows, text_table
from ..evaluation.templates import TEMPLATES
from ..graders import GRADERS
from ..graders.extraction import Extraction
from ..trainer.config import option
from .recipes import RecipeParser, model_of, refuse_broken

_COUNTS = ("num_samples", "max_tokens", "batch_size", "limit", "max_tool_calling_iterations")


@dataclass
class EvaluateArguments:
    """Arguments of `barl evaluate`. The defaults are the paper's pass@1: greedy decoding."""

    model: str = field(metadata={"help": "Model or LoRA adapter: a Hub id or a local folder."})
    benchmarks: str = field(
        metadata={
            "help": f"Benchmarks, separated by commas: {', '.join(BENCHMARKS)}. NAME alone is "
            "loaded from the Hub, NAME=PATH from a local file or folder with the same columns. "
            "Under any other name, PATH has your own problems (JSONL, JSON, CSV or parquet)."
        }
    )
    backend: Literal["transformers", "vllm"] = option(
        "transformers", "Engine that generates the responses."
    )
    model_init_kwargs: dict[str, Any] | str | None = option(
        None,
        "Arguments of `from_pretrained` or `vllm.LLM`, as JSON: '{\"tensor_parallel_size\": 2}'.",
    )
    trust_remote_code: bool = option(
        False, "Run the code that comes with the model, if it has any. Without, none is run."
    )
    template: str = option(
        "auto",
        f"Prompt: {', '.join(TEMPLATES)}, or a text with {{problem}} in it. `auto`: the prompt of "
        "the training, if `barl train` made the checkpoint; else by the tokenizer's chat template; "
        "`plain` without one.",
    )
    system_prompt: str | None = option(
        None, "System prompt that replaces the template's; '' for none."
    )
    chat_template_kwargs: dict[str, Any] | str | None = option(
        None,
        "Variables of the chat template, as JSON: for instance '{\"enable_thinking\": false}' for "
        "Qwen3. `auto` takes those of the training, if `barl train` made the checkpoint.",
    )
    temperature: float | None = option(None, "Sampling temperature. Without: greedy decoding.")
    top_p: float | None = option(None, "Sample from the likeliest tokens of this total share.")
    top_k: int | None = option(None, "Sample from this many of the likeliest tokens.")
    min_p: float | None = option(
        None, "Sample from tokens with at least this share of the likeliest token's probability."
    )
    num_samples: int = option(1, "Responses to each problem. Greedy decoding allows one.")
    max_tokens: int = option(2048, "Most tokens of a response, or of an agent's whole episode.")
    tools: list[str] | None = option(
        None, "Tools that the model may call, by dotted path, as `barl train` takes them."
    )
    environment_factory: str | None = option(
        None, "Environment of an agent, by dotted path. Its `answer`, if it has one, is judged."
    )
    max_tool_calling_iterations: int | None = option(
        None, "Most turns with calls of tools in an episode. Without it, max_tokens ends them."
    )
    seed: int = option(0, "Seed of all samples.")
    batch_size: int = option(64, "Responses that are generated at a time. Fewer need less memory.")
    limit: int | None = option(None, "Evaluate only the first LIMIT rows of each benchmark.")
    grader: str = option("math_verify", f"What reads and judges answers: {', '.join(GRADERS)}.")
    extraction: Extraction = option(
        "boxed", "Which text is read as the answer: the last box alone, or also a stated answer."
    )
    output_dir: str = option(
        "outputs/evaluation",
        "Folder of the responses and results. The same command continues a run that was killed.",
    )

    def __post_init__(self):
        self.model = model_of(self.model)
        self.tools = [self.tools] if isinstance(self.tools, str) else self.tools
        for name in ("model_init_kwargs", "chat_template_kwargs"):
            if isinstance(vars(self)[name], str):  # it may hold a token
                raise ValueError(f"{name} must be a JSON object, got another text.")
        temperature = self.drawing.temperature
        cuts = {name: v for name, v in self.drawing.settings.items() if name in NO_CUT_OFF}
        is_agent = self.tools or self.environment_factory
        rules = {
            "temperature must be a number of 0 or more": 0 <= temperature < inf,
            "top_p must lie above 0 and not above 1": 0 < cuts.get("top_p", 1) <= 1,
            "top_k must be 0 or more": cuts.get("top_k", 0) >= 0,
            "min_p must lie between 0 and 1": 0 <= cuts.get("min_p", 0) <= 1,
            f"{', '.join(cuts)} must be left out with temperature 0": temperature or not cuts,
            "num_samples must be 1 with temperature 0": self.num_samples == 1 or temperature,
            "max_tool_calling_iterations must be left out without tools": is_agent
            or self.max_tool_calling_iterations is None,
        }
        counts = {name: getattr(self, name) for name in _COUNTS}
        rules |= {f"{n} must be at least 1": v is None or v >= 1 for n, v in counts.items()}
        refuse_broken(rules, self)

    @property
    def drawing(self) -> Drawing:
        """How tokens are drawn. A value that cuts nothing off is as good as none."""
        given = {name: vars(self)[name] for name in NO_CUT_OFF}
        cuts = {name: v for name, v in given.items() if v != NO_CUT_OFF[name]}
        return Drawing(self.temperature or 0.0, **cuts)

    @property
    def init_kwargs(self) -> dict[str, Any]:
        """`model_init_kwargs`, with whether the model's own code may run."""
        kwargs: Any = self.model_init_kwargs or {}
        return {"trust_remote_code": self.trust_remote_code} | kwargs


def run(argv: list[str]) -> None:
    """Parse options, evaluate, and print the results."""
    (args,) = RecipeParser(EvaluateArguments, prog="barl evaluate").parse_args_and_config(argv)
    results = evaluate(args, ["barl", "evaluate", *argv])
    if os.environ.get("RANK", "0") != "0":
        return
    title = f"{Path(results['model']).name}, {args.drawing}"
    print(text_table(title, table_rows(results), align="right"))
    if samples := sample_rows(results):
        print(text_table("Samples of each problem, in %", samples, align="right"))
    names = ", ".join(f"{name}.jsonl" for name in results["benchmarks"])
    print(
        f"{results['grader']['name']} grader, at most {results['max_tokens']} tokens. "
        f"In {args.output_dir}: {names}, results.json."
    )
    if "advice" in results:
        print(results["advice"])
