"""Completions of many prompts, greedy or sampled, and whole episodes of agents.

A killed run that is started again draws the same samples: transformers computes the same batches,
each with a seed; with vLLM each sample has its own seed, and other batches round otherwise.
"""

import inspect
import math
import os
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import replace
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import torch
from accelerate import PartialState
from accelerate.utils import gather_object
from datasets import Dataset
from peft import AutoPeftModelForCausalLM, PeftConfig
from transformers import AutoModelForCausalLM, GenerationConfig, set_seed
from transformers.utils import find_adapter_config_file

from ..rewards import format_reward
from ..steps import chain_of_thought
from ..trainer import BARLConfig, BARLTrainer
from ..trainer.checks import CheckedFactory, tool_schemas
from ..trainer.evaluation import greedy
from ..trainer.turns import Episode
from .benchmarks import Problem
from .templates import TEMPLATES, Template

NO_CUT_OFF = {"top_p": 1, "top_k": 0, "min_p": 0}
"""Cut-off -> the value with which transformers and vLLM switch it off."""

AGENT_ENGINE_FIELDS = {
    "gpu_memory_utilization": "vllm_gpu_memory_utilization",
    "max_model_len": "vllm_max_model_length",
    "model_impl": "vllm_model_impl",
    "trust_remote_code": "trust_remote_code",
}
"""Argument of `vllm.LLM` -> the field of TRL's configuration by which TRL's loop takes it."""


class Drawing(NamedTuple):
    """How tokens are drawn: 0 is greedy decoding; a cut-off that is None is not applied."""

    temperature: float = 0.0
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None

    @property
    def settings(self) -> dict[str, float]:
        """What is not None, by name."""
        return {name: value for name, value in self._asdict().items() if value is not None}

    def __str__(self) -> str:
        """Return the settings on one line."""
        if not self.temperature:
            return "greedy"
        return ", ".join(f"{name} {value:g}" for name, value in self.settings.items())


class Agent(NamedTuple):
    """What TRL's loop plays with, as `GRPOTrainer` takes it."""

    tools: Sequence[Callable[..., Any]]
    environment_factory: CheckedFactory | None
    max_tool_calling_iterations: int | None


class Job(NamedTuple):
    """A completion to generate."""

    key: tuple[int, int]  # problem id and number of the sample
    prompt_ids: list[int]
    seed: int
    problem: Problem


class Backend:
    """The engine that completes prompts: transformers' `generate`, vLLM, or TRL's loop of agents.

    For agents `max_tokens` limits all that follows the prompt, which `template` writes, and the
    processes of a launch share the episodes of each batch. The model may be a LoRA adapter, whose
    base model is loaded, too. `init_kwargs` are further arguments of `from_pretrained`, or of
    `vllm.LLM`; for agents with vLLM those of `AGENT_ENGINE_FIELDS`.
    """

    def __init__(
        self,
        model: str,
        tokenizer: Any,
        end_ids: Sequence[int],
        drawing: Drawing,
        *,
        max_tokens: int,
        batch_size: int = 64,
        use_vllm: bool = False,
        template: Template = TEMPLATES["plain"],
        agent: Agent | None = None,
        **init_kwargs: Any,
    ):
        self.tokenizer, self.end_ids, self.drawing = tokenizer, list(end_ids), drawing
        self.max_tokens, self.batch_size, self._agent = max_tokens, batch_size, agent
        self._use_vllm, self._template = use_vllm, template
        self._sampling: Any = NO_CUT_OFF | drawing.settings if drawing.temperature else {}
        if use_vllm and agent is None:
            self._start_engine(model, init_kwargs)
            return
        where: Any = "cpu" if use_vllm else "auto"
        if int(os.environ.get("WORLD_SIZE", 1)) > 1:  # not each process's model on all GPUs
            where = {"": PartialState().device}
        own = {"trust_remote_code": bool(init_kwargs.get("trust_remote_code"))}
        options = {"dtype": "auto", "device_map": where} | (own if use_vllm else init_kwargs)
        is_merged = use_vllm and find_adapter_config_file(model)  # TRL hands over whole weights
        kind: Any = AutoPeftModelForCausalLM if is_merged else AutoModelForCausalLM
        loaded = kind.from_pretrained(model, **options)
        self.model: Any = loaded.merge_and_unload() if is_merged else loaded
        # The configuration that comes with the model may have a repetition penalty or top_p.
        self.model.generation_config = GenerationConfig(eos_token_id=self.end_ids)
        if agent is not None:
            self._trainer = self._player(agent, init_kwargs)

    def _start_engine(self, model: str, init_kwargs: dict[str, Any]) -> None:
        import vllm  # pyright: ignore[reportMissingImports]

        self._lora = None
        if find_adapter_config_file(model):
            from vllm.lora.request import LoRARequest  # pyright: ignore[reportMissingImports]

            adapter: Any = PeftConfig.from_pretrained(model)
            self._lora = LoRARequest("adapter", 1, model)
            # vLLM has room for ranks that are powers of two
            rank = max(8, 1 << (adapter.r - 1).bit_length())
            init_kwargs = {"enable_lora": True, "max_lora_rank": rank} | init_kwargs
            model = adapter.base_model_name_or_path
        defaults = {"max_num_seqs": self.batch_size, "generation_config": "vllm"}
        self._llm = vllm.LLM(model, **defaults | init_kwargs)

    def _player(self, agent: Agent, init_kwargs: dict[str, Any]) -> Any:
        """Make the trainer whose loop plays episodes."""
        more = dict(self._sampling)
        if self._use_vllm:
            more |= {"use_vllm": True, "vllm_gpu_memory_utilization": 0.9}
            more |= {AGENT_ENGINE_FIELDS[name]: value for name, value in init_kwargs.items()}
            more["generation_kwargs"] = {"stop_token_ids": self.end_ids}
        variables = {name: v for name, v in self._template.variables.items() if name != "tools"}
        with TemporaryDirectory() as folder:  # trainers want one
            args = BARLConfig(
                folder,
                credit="grpo",
                use_cpu=self.model.device.type == "cpu",
                bf16=False,
                gradient_checkpointing=False,
                report_to="none",
                num_generations=2,
                # vLLM has room for as many
                per_device_train_batch_size=self.batch_size + self.batch_size % 2,
                max_completion_length=self.max_tokens,
                max_tool_calling_iterations=agent.max_tool_calling_iterations,
                chat_template_kwargs=variables,
                **more,
            )
            factory = agent.environment_factory
            takes = inspect.signature(type(factory.first).reset).parameters if factory else ()
            row = dict.fromkeys(takes) | {"prompt": self._template.messages("?"), "solution": "1"}
            return BARLTrainer(
                self.model,
                format_reward,  # TRL wants one; nothing is rewarded here
                args,
                Dataset.from_list([row] * (args.generation_batch_size or 1)),
                processing_class=self.tokenizer,
                tools=[*agent.tools],
                environment_factory=factory,
            )

    def complete(
        self, jobs: Sequence[Job], done: Collection[tuple[int, int]]
    ) -> Iterator[list[tuple[Job, Episode]]]:
        """Generate for all jobs that are not yet done, and yield them with what was made of them.

        vLLM forms the batches itself. Else a batch of which a job is not done is made as a whole.
        """
        if self._use_vllm and self._agent is None:
            yield from self._by_engine([job for job in jobs if job.key not in done])
            return
        make = self._generate if self._agent is None else self._play
        # the longest prompts come first: they show whether memory suffices
        ordered = sorted(jobs, key=lambda job: (-len(job.prompt_ids), job.key))
        for start in range(0, len(ordered), self.batch_size):
            batch = ordered[start : start + self.batch_size]
            if not all(job.key in done for job in batch):
                yield list(zip(batch, make(batch), strict=True))

    def _generate(self, batch: Sequence[Job]) -> list[Episode]:
        torch.manual_seed(batch[0].seed)
        length, pad = max(len(job.prompt_ids) for job in batch), self.end_ids[0]
        padding = [length - len(job.prompt_ids) for job in batch]
        ids = [[pad] * n + list(job.prompt_ids) for n, job in zip(padding, batch, strict=True)]
        mask = [[0] * n + [1] * (length - n) for n in padding]
        generated = self.model.generate(
            input_ids=torch.tensor(ids, device=self.model.device),
            attention_mask=torch.tensor(mask, device=self.model.device),
            max_new_tokens=self.max_tokens,
            pad_token_id=pad,
            use_cache=True,
            do_sample=bool(self._sampling),
            **self._sampling,
        )
        return [*map(self._turn, generated[:, length:].tolist())]

    def _turn(self, token_ids: Sequence[int]) -> Episode:
        """Return the generated tokens up to the end of the turn, which padding may follow."""
        ids = chain_of_thought(token_ids, self.end_ids)
        text = self.tokenizer.decode(ids, skip_special_tokens=True)
        is_cut_off = len(ids) == len(token_ids)
        return Episode("", text, text, ids, [1] * len(ids), len(ids), is_cut_off, None)

    def _by_engine(self, jobs: Sequence[Job]) -> Iterator[list[tuple[Job, Episode]]]:
        from vllm import SamplingParams  # pyright: ignore[reportMissingImports]

        engine = self._llm.llm_engine
        limits = {"max_tokens": self.max_tokens, "stop_token_ids": self.end_ids}
        for number, job in enumerate(jobs):
            params = SamplingParams(**self.drawing.settings, **limits, seed=job.seed)
            prompt = {"prompt_token_ids": job.prompt_ids}
            engine.add_request(str(number), prompt, params, lora_request=self._lora)
        while engine.has_unfinished_requests():
            finished = [output for output in engine.step() if output.finished]
            yield [(jobs[int(o.request_id)], self._turn(o.outputs[0].token_ids)) for o in finished]

    def _play(self, batch: Sequence[Job]) -> list[Episode]:
        """Play this process's share of a batch, and return the episodes of all processes."""
        # all play equally many: where the batch does not divide, the last one is played again
        state = self._trainer.accelerator
        size = math.ceil(len(batch) / state.num_processes)
        start = state.process_index * size
        jobs = [batch[min(n, len(batch) - 1)] for n in range(start, start + size)]
        rows = []
        for text, solution, columns in (job.problem[1:] for job in jobs):
            prompt = self._template.messages(text)
            rows.append({**columns, "prompt": prompt, "solution": solution})
        set_seed(jobs[0].seed)  # environments may draw numbers, too
        with nullcontext() if self.drawing.temperature else greedy(self._trainer):
            return gather_object(self._trainer.play(rows))[: len(batch)]

    def describe(self) -> dict[str, Any]:
        """Return device, dtype, attention and the batch size, for `results.json`."""
        if self._use_vllm:
            llm = self._llm if self._agent is None else self._trainer.vllm_generation.llm
            config = llm.llm_engine.vllm_config
            device, dtype = config.device_config.device_type, config.model_config.dtype
            attention = getattr(config.attention_config.backend, "name", "chosen by vLLM")
        else:
            device, dtype = self.model.device, self.model.dtype
            attention = self.model.config._attn_implementation
        facts = {"device": str(device), "dtype": str(dtype).removeprefix("torch.")}
        facts |= {"attention": attention, "batch_size": self.batch_size}
        if self._agent is not None and not self._use_vllm:
            facts["processes"] = self._trainer.accelerator.num_processes
        return facts


def telling(template: Template, tokenizer: Any, agent: Agent) -> Template:
    """Return a template whose prompts tell of tools, also of an environment's public methods.

    A ValueError says that the template does not show tools, or what a tool lacks.
    """
    factory = agent.environment_factory
    schemas = tool_schemas(agent.tools, factory and factory.first)
    told = replace(template, variables={**template.variables, "tools": schemas})
    if template.plain or told.prompt(tokenizer, "?") == template.prompt(tokenizer, "?"):
        raise ValueError(f"template must show tools, got {template.name!r}, which leaves them out.")
    return told
