"""The arguments of `barl evaluate`."""

from dataclasses import dataclass, field
from math import inf
from typing import Any, Literal

from ...evaluation.benchmarks import BENCHMARKS
from ...evaluation.generation.decoding import NO_CUT_OFF, Drawing
from ...evaluation.generation.templates import TEMPLATES, refuse_unknown_template
from ...graders import GRADERS
from ...graders.extraction import Extraction
from ...report.json_files import parse_json
from ...trainer.config import help_of, option
from ..shell.rules import Rule, refuse_broken


def _only_drawn(name: str) -> Rule:
    def holds(s: Any) -> bool:
        return s.temperature or getattr(s, name) == NO_CUT_OFF[name]

    way_out = "greedy decoding takes the likeliest token. Set a temperature to sample"
    return Rule(name, holds, "be left out with temperature 0", way_out)


def _is_agent(s: Any) -> bool:
    return bool(s.tools or s.environment_factory)


def _at_least_one(name: str) -> Rule:
    return Rule(name, lambda s: getattr(s, name) >= 1, "be at least 1", "choose a larger number")


# fmt: off
_RULES = (
    Rule("temperature", lambda s: 0 <= s.temperature < inf, "be a number of 0 or more",
         "0 is greedy"),
    Rule("top_p", lambda s: 0 < s.top_p <= 1, "lie above 0 and not above 1", "1 keeps all tokens"),
    Rule("top_k", lambda s: s.top_k >= 0, "be 0 or more", "0 keeps all tokens"),
    Rule("min_p", lambda s: 0 <= s.min_p <= 1, "lie between 0 and 1", "0 keeps all tokens"),
    *map(_only_drawn, NO_CUT_OFF),
    *map(_at_least_one, ("num_samples", "max_tokens", "batch_size", "limit",
                         "max_tool_calling_iterations")),
    Rule("num_samples", lambda s: s.num_samples == 1 or s.temperature, "be 1 with temperature 0",
         "all would be the same. The paper samples with temperature 1"),
    Rule("max_tool_calling_iterations", _is_agent, "be left out without tools",
         "name some with tools or environment_factory"),
)
# fmt: on


def _parsed(name: str, value: Any, instance: str) -> Any:
    """Return an option whose text is a JSON object."""
    if not isinstance(value, str):
        return value
    try:
        return dict(parse_json(value))
    except (ValueError, TypeError) as error:
        raise ValueError(  # without the text, which may hold a token
            f"{name} must be a JSON object, got another text ({error}): for instance {instance}."
        ) from None


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
        "More arguments of `from_pretrained`, or of `vllm.LLM`, as JSON: for instance "
        "'{\"tensor_parallel_size\": 2}'.",
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
    temperature: float | None = option(
        None, "Sampling temperature. Without it, decoding is greedy."
    )
    top_p: float | None = option(
        None, "Sample from the likeliest tokens whose probabilities add up to this."
    )
    top_k: int | None = option(None, "Sample from this many of the likeliest tokens.")
    min_p: float | None = option(
        None, "Sample from tokens with at least this share of the likeliest token's probability."
    )
    num_samples: int = option(1, "Responses to each problem. Greedy decoding allows one.")
    max_tokens: int = option(2048, "Most tokens of a response.")
    tools: list[str] | None = option(
        None,
        "Tools that the model may call, by dotted path, as `barl train` takes them. TRL's loop "
        "plays whole episodes, and `max_tokens` counts all that follows the prompt, also what "
        "tools return.",
    )
    environment_factory: str | None = option(
        None,
        "Environment of an agent, by the dotted path of its class or of a function that makes one. "
        "Its public methods are tools; `reset` gets the row of the problem; its `answer`, if it "
        "has one, is judged.",
    )
    max_tool_calling_iterations: int | None = option(
        None, "Most turns with calls of tools in an episode. Without it, max_tokens ends them."
    )
    seed: int = option(0, "Seed of all samples.")
    batch_size: int = option(64, "Responses that are generated at a time. Fewer need less memory.")
    limit: int | None = option(None, "Evaluate only the first LIMIT rows of each benchmark.")
    grader: str = option(
        "math_verify", f"Grader that reads and judges answers: {', '.join(GRADERS)}."
    )
    extraction: Extraction = option("boxed", help_of("extraction"))
    output_dir: str = option(
        "outputs/evaluation",
        "Folder of the responses and results. The same command continues a run that was killed. "
        "You can add benchmarks later.",
    )

    def __post_init__(self):
        self.tools = [self.tools] if isinstance(self.tools, str) else self.tools
        self.model_init_kwargs = _parsed(
            "model_init_kwargs", self.model_init_kwargs, '{"max_model_len": 4096}'
        )
        self.chat_template_kwargs = _parsed(
            "chat_template_kwargs", self.chat_template_kwargs, '{"enable_thinking": false}'
        )
        refuse_broken(_RULES, self)
        refuse_unknown_template(self.template)

    @property
    def is_agent(self) -> bool:
        """Whether the model plays whole episodes."""
        return _is_agent(self)

    @property
    def drawing(self) -> Drawing:
        """How tokens are drawn. A value that cuts nothing off is as good as none."""
        given = {name: vars(self)[name] for name in NO_CUT_OFF}
        cuts = {name: v for name, v in given.items() if v != NO_CUT_OFF[name]}
        return Drawing(self.temperature or 0.0, **cuts)

    @property
    def init_kwargs(self) -> dict[str, Any]:
        """`model_init_kwargs`, parsed."""
        kwargs: Any = self.model_init_kwargs
        return kwargs or {}
