"""Whole episodes of agents, which TRL's loop of tools and environments plays."""

import inspect
import math
import os
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from accelerate import PartialState
from accelerate.utils import gather_object
from datasets import Dataset
from transformers import AutoModelForCausalLM, GenerationConfig, set_seed
from transformers.utils import find_adapter_config_file, get_json_schema
from transformers.utils.chat_template_utils import (
    DocstringParsingException,
    TypeHintParsingException,
)

from ...rewards import format_reward, rollout_answers
from ...trainer import BARLConfig
from ...trainer.baseline_trainer import BaselineTrainer
from ...trainer.evaluation import greedy
from ...trainer.rollouts.agents import Episode
from .backends import Decoding, Job, TransformersBackend, engine_facts
from .decoding import AGENT_ENGINE_FIELDS, NO_CUT_OFF
from .templates import Template


def telling_of_tools(
    template: Template,
    tokenizer: Any,
    *,
    tools: Sequence[Callable[..., Any]],
    environment_factory: Callable[[], Any] | None,
) -> Template:
    """Return a template whose prompts tell of tools, and of those of an environment.

    Args:
        template: The template without tools.
        tokenizer: The model's tokenizer.
        tools: Functions that the model may call.
        environment_factory: Makes an environment, whose public methods are tools, too.

    Raises:
        ValueError: Prompts of the template have no messages, or do not show tools; or the types or
            the docstring of a tool do not say what its arguments are.
    """
    if template.plain:
        raise ValueError(
            f"template must have messages with tools, got {template.name!r}, which is plain text: "
            "the model calls tools as a chat template writes it. Evaluate a model that has one."
        )
    environment = environment_factory and environment_factory()
    methods = [
        getattr(environment, name)
        for name, _ in inspect.getmembers(type(environment), inspect.isfunction)
        if not name.startswith("_") and name not in ("reset", "get_reward")
    ]
    variables = {**template.variables, "tools": [*map(_schema, [*tools, *methods])]}
    telling = replace(template, variables=variables)
    if telling.prompt(tokenizer, "?") == template.prompt(tokenizer, "?"):
        raise ValueError(
            f"template must show tools, got {template.name!r}: the tokenizer's chat template "
            "leaves them out, so the model would not know of them. Evaluate a model that was "
            "trained with tools."
        )
    return telling


def _schema(tool: Callable[..., Any]) -> dict[str, Any]:
    try:
        return get_json_schema(tool)
    except (DocstringParsingException, TypeHintParsingException) as error:
        raise ValueError(
            f"tools must have types and a docstring with a line for each argument, got "
            f"{tool.__qualname__} ({error}): write them."
        ) from None


class AgentCompletion(NamedTuple):
    """An episode, as the completion of a problem's prompt."""

    episode: Episode

    @property
    def messages(self) -> list[Any]:
        """The messages of the prompt, of all turns and of tools."""
        return [*self.episode.prompt, *self.episode.completion]

    @property
    def token_ids(self) -> list[int]:
        """Token ids of all turns, and of what tools returned."""
        return self.episode.token_ids

    @property
    def own_tokens(self) -> list[int]:
        """1 for each of these tokens that the model wrote, 0 for the others."""
        return self.episode.own_tokens

    @property
    def num_tokens(self) -> int:
        """Number of tokens that the model wrote."""
        return self.episode.num_tokens

    @property
    def truncated(self) -> bool:
        """Whether it ended within a turn, or with a call and without an answer."""
        return self.episode.is_cut_off

    def text(self, tokenizer: Any) -> str:
        """Return what the model wrote in all turns."""
        return self.episode.text

    def answer(self, text: str, extract_answer: Callable[[str], str | None]) -> str | None:
        """Return the environment's answer, or that in the last message; None without one."""
        [answer] = rollout_answers(
            [self.episode.completion], extract_answer, [self.episode.given_answer]
        )
        return answer


class AgentBackend(TransformersBackend):
    """A backend that lets TRL's loop play an episode with each problem of a batch.

    `max_tokens` limits all that follows the prompt, as TRL's `max_completion_length`. The processes
    of a launch share the episodes of each batch. With vLLM, TRL hands the weights of a model in the
    main memory to the engine.

    Args:
        model: Folder or Hub id of a model, or of a LoRA adapter, whose base model is loaded, too.
        decoding: How completions are generated.
        template: Makes the prompts, as [`telling_of_tools`] returned it.
        tokenizer: The model's tokenizer.
        tools, environment_factory, max_tool_calling_iterations: What TRL's `GRPOTrainer` takes.
        use_vllm: Whether vLLM generates, in this process.
        **init_kwargs: Further arguments of `from_pretrained`, or with vLLM those of `vllm.LLM` that
            `AGENT_ENGINE_FIELDS` has.
    """

    def __init__(
        self,
        model: str,
        decoding: Decoding,
        *,
        template: Template,
        tokenizer: Any,
        tools: Sequence[Callable[..., Any]],
        environment_factory: Callable[[], Any] | None,
        max_tool_calling_iterations: int | None,
        use_vllm: bool = False,
        **init_kwargs: Any,
    ):
        engine: dict[str, Any] = {}
        if use_vllm:
            trusts = bool(init_kwargs.get("trust_remote_code"))
            self.model, self.decoding = _in_main_memory(model, trust_remote_code=trusts), decoding
            engine = {"use_vllm": True, "vllm_gpu_memory_utilization": 0.9}
            engine |= {AGENT_ENGINE_FIELDS[name]: value for name, value in init_kwargs.items()}
            engine["generation_kwargs"] = {"stop_token_ids": [*decoding.end_ids]}
        else:
            if int(os.environ.get("WORLD_SIZE", 1)) > 1:  # not each process's model on all GPUs
                init_kwargs = {"device_map": {"": PartialState().device}} | init_kwargs
            super().__init__(model, decoding, **init_kwargs)
        self.model.generation_config = GenerationConfig(eos_token_id=list(decoding.end_ids))
        self._template = template
        is_sampled = decoding.drawing.temperature > 0
        drawing: dict[str, Any] = NO_CUT_OFF | decoding.drawing.settings if is_sampled else {}
        variables = {name: v for name, v in template.variables.items() if name != "tools"}
        with TemporaryDirectory() as folder:  # trainers want one
            args = BARLConfig(
                folder,
                use_cpu=self.model.device.type == "cpu",
                bf16=False,
                gradient_checkpointing=False,
                report_to="none",
                num_generations=2,
                # vLLM has room for as many
                per_device_train_batch_size=decoding.batch_size + decoding.batch_size % 2,
                max_completion_length=decoding.max_tokens,
                max_tool_calling_iterations=max_tool_calling_iterations,
                chat_template_kwargs=variables,
                **drawing | engine,
            )
            self._trainer = BaselineTrainer(
                self.model,
                format_reward,  # TRL wants one; nothing is rewarded here
                args,
                Dataset.from_list([{"prompt": template.messages("?")}]),
                processing_class=tokenizer,
                tools=[*tools],
                environment_factory=environment_factory,
            )
        self._decode = nullcontext if is_sampled else lambda: greedy(self._trainer)

    def _complete_batch(self, batch: Sequence[Job]) -> list[AgentCompletion]:
        """Play this process's share of a batch, and return the episodes of all processes.

        All processes play equally many: where the batch does not divide, its last episode is played
        again, and does not count.
        """
        state = self._trainer.accelerator
        size = math.ceil(len(batch) / state.num_processes)
        start = state.process_index * size
        jobs = [batch[min(n, len(batch) - 1)] for n in range(start, start + size)]
        problems: list[Any] = [job.problem for job in jobs]
        problem_rows = [
            {
                **problem.columns,
                "prompt": self._template.messages(problem.text),
                "solution": problem.solution,
            }
            for problem in problems
        ]
        set_seed(jobs[0].seed)  # environments may draw numbers, too
        with self._decode():
            episodes = gather_object(self._trainer.play(problem_rows))
        return [*map(AgentCompletion, episodes[: len(batch)])]

    def describe(self) -> dict[str, Any]:
        """Return device, dtype, attention and the batch size, for `results.json`."""
        if self._trainer.use_vllm:
            return engine_facts(self._trainer.vllm_generation.llm, self.decoding.batch_size)
        return super().describe() | {"processes": self._trainer.accelerator.num_processes}


def _in_main_memory(name: str, **options: Any) -> Any:
    """Load a model, with its LoRA adapter merged in, where it takes none of the GPU's memory."""
    where: Any = {"dtype": "auto", "device_map": "cpu", **options}
    if not find_adapter_config_file(name):
        return AutoModelForCausalLM.from_pretrained(name, **where)
    from peft import AutoPeftModelForCausalLM

    model: Any = AutoPeftModelForCausalLM.from_pretrained(name, **where)
    return model.merge_and_unload()
