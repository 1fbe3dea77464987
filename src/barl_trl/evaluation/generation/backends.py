"""Completions of many prompts, greedy or sampled, by transformers or by vLLM.

A killed run that is started again draws the same samples: with vLLM each has its own seed, and
transformers computes the same batches, each with a seed. There the samples are equal to the bit.
vLLM's batches depend on what else is in its queue, and the rounding depends on the batch.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from transformers import AutoModelForCausalLM, GenerationConfig
from transformers.utils import find_adapter_config_file

from ...steps import chain_of_thought
from ..benchmarks import Problem
from .decoding import NO_CUT_OFF, Drawing

Key = tuple[int, int]
"""Problem id and number of the sample."""


class Job(NamedTuple):
    """A completion to generate."""

    key: Key
    prompt_ids: list[int]
    seed: int
    problem: Problem | None = None


class CompletionTokens(NamedTuple):
    """A completion without the token that ended its turn, and whether the limit of tokens did."""

    token_ids: list[int]
    truncated: bool
    messages = None
    own_tokens = None

    @property
    def num_tokens(self) -> int:
        """Number of its tokens."""
        return len(self.token_ids)

    def text(self, tokenizer: Any) -> str:
        """Return its text, without special tokens."""
        return tokenizer.decode(self.token_ids, skip_special_tokens=True)

    def answer(self, text: str, extract_answer: Callable[[str], str | None]) -> str | None:
        """Return the answer in its text; None without one."""
        return extract_answer(text)

    @classmethod
    def of(cls, token_ids: Sequence[int], end_ids: Collection[int]) -> "CompletionTokens":
        """Return the generated tokens up to the end of the turn, which padding may follow."""
        kept = list(chain_of_thought(token_ids, end_ids))
        return cls(kept, truncated=len(kept) == len(token_ids))


def complete_batch(
    model: Any,
    prompts: Sequence[Sequence[int]],
    *,
    max_tokens: int,
    end_ids: Collection[int],
    pad_id: int,
    **options: Any,
) -> list[CompletionTokens]:
    """Generate one completion of each prompt, in one batch.

    Args:
        model: A causal language model of transformers.
        prompts: Token ids of each prompt.
        max_tokens: Most tokens of a completion.
        end_ids: Ids of the tokens that end a completion.
        pad_id: Id of the token that pads the prompts on the left.
        **options: Further arguments of `model.generate`.
    """
    length = max(map(len, prompts))
    ids = torch.tensor([[pad_id] * (length - len(p)) + list(p) for p in prompts])
    mask = torch.tensor([[0] * (length - len(p)) + [1] * len(p) for p in prompts])
    with torch.no_grad():
        generated = model.generate(
            input_ids=ids.to(model.device),
            attention_mask=mask.to(model.device),
            max_new_tokens=max_tokens,
            eos_token_id=list(end_ids),
            pad_token_id=pad_id,
            use_cache=True,
            **options,
        )
    return [CompletionTokens.of(row, end_ids) for row in generated[:, length:].tolist()]


@dataclass(frozen=True)
class Decoding:
    """How completions are generated: at most `batch_size` at a time, until a token of `end_ids`."""

    end_ids: Sequence[int]
    max_tokens: int
    drawing: Drawing
    batch_size: int


class TransformersBackend:
    """A backend that calls transformers' `model.generate` on batches of prompts of similar length.

    Args:
        model: Folder or Hub id of a model, or of a LoRA adapter, whose base model is loaded, too.
        decoding: How completions are generated.
        **init_kwargs: Further arguments of `from_pretrained`.
    """

    def __init__(self, model: str, decoding: Decoding, **init_kwargs: Any):
        init_kwargs = {"dtype": "auto", "device_map": "auto"} | init_kwargs
        self.model: Any = AutoModelForCausalLM.from_pretrained(model, **init_kwargs)
        # The configuration that comes with the model may have a repetition penalty or top_p.
        self.model.generation_config = GenerationConfig()
        self.decoding = decoding

    def complete(
        self, jobs: Sequence[Job], done: Collection[Key]
    ) -> Iterator[list[tuple[Job, CompletionTokens]]]:
        """Generate batch by batch, and yield each batch's jobs with their completions.

        A batch is skipped if all of its jobs are done, else the whole batch is generated.
        """
        # the longest prompts come first: they show whether memory suffices
        ordered = sorted(jobs, key=lambda job: (-len(job.prompt_ids), job.key))
        for start in range(0, len(ordered), self.decoding.batch_size):
            batch = ordered[start : start + self.decoding.batch_size]
            if not all(job.key in done for job in batch):
                yield list(zip(batch, self._complete_batch(batch), strict=True))

    def _complete_batch(self, batch: Sequence[Job]) -> Sequence[Any]:
        decoding, options = self.decoding, {"do_sample": False}
        if decoding.drawing.temperature:
            options = {"do_sample": True, **NO_CUT_OFF, **decoding.drawing.settings}
        torch.manual_seed(batch[0].seed)
        return complete_batch(
            self.model,
            [job.prompt_ids for job in batch],
            max_tokens=decoding.max_tokens,
            end_ids=decoding.end_ids,
            pad_id=decoding.end_ids[0],
            **options,
        )

    def describe(self) -> dict[str, Any]:
        """Return device, dtype, attention and the batch size, for `results.json`."""
        return {
            "device": str(self.model.device),
            "dtype": str(self.model.dtype).removeprefix("torch."),
            "attention": self.model.config._attn_implementation,
            "batch_size": self.decoding.batch_size,
        }


class VLLMBackend:
    """A backend that runs a vLLM engine in this process. The engine forms the batches itself.

    Its arguments are those of [`TransformersBackend`], but `**init_kwargs` are for `vllm.LLM`.

    Raises:
        ImportError: vLLM is not installed.
    """

    def __init__(self, model: str, decoding: Decoding, **init_kwargs: Any):
        import vllm  # pyright: ignore[reportMissingImports]

        self.end_ids, self.batch_size, self.lora = decoding.end_ids, decoding.batch_size, None
        if find_adapter_config_file(model):
            from peft import PeftConfig
            from vllm.lora.request import LoRARequest  # pyright: ignore[reportMissingImports]

            adapter: Any = PeftConfig.from_pretrained(model)
            self.lora = LoRARequest("adapter", 1, model)
            # vLLM has room for ranks that are powers of two
            rank = max(8, 1 << (adapter.r - 1).bit_length())
            init_kwargs = {"enable_lora": True, "max_lora_rank": rank} | init_kwargs
            model = adapter.base_model_name_or_path
        # The configuration that comes with the model may have a repetition penalty or top_p.
        defaults = {"max_num_seqs": decoding.batch_size, "generation_config": "vllm"}
        self.llm = vllm.LLM(model, **defaults | init_kwargs)
        self._params = lambda seed: vllm.SamplingParams(
            **decoding.drawing.settings,
            max_tokens=decoding.max_tokens,
            seed=seed,
            stop_token_ids=list(decoding.end_ids),
        )

    def complete(
        self, jobs: Sequence[Job], done: Collection[Key]
    ) -> Iterator[list[tuple[Job, CompletionTokens]]]:
        """Generate for all jobs that are not yet done, and yield them as they are finished."""
        pending = {str(number): job for number, job in enumerate(jobs) if job.key not in done}
        engine = self.llm.llm_engine
        for name, job in pending.items():
            prompt = {"prompt_token_ids": job.prompt_ids}
            engine.add_request(name, prompt, self._params(job.seed), lora_request=self.lora)
        while engine.has_unfinished_requests():
            finished = [output for output in engine.step() if output.finished]
            yield [
                (
                    pending[output.request_id],
                    CompletionTokens.of(output.outputs[0].token_ids, self.end_ids),
                )
                for output in finished
            ]

    def describe(self) -> dict[str, Any]:
        """Return device, dtype, attention and the batch size, for `results.json`."""
        return engine_facts(self.llm, self.batch_size)


def engine_facts(llm: Any, batch_size: int) -> dict[str, Any]:
    """Return device, dtype and attention of a vLLM engine, and the batch size."""
    config = llm.llm_engine.vllm_config
    backend = config.attention_config.backend
    return {
        "device": str(config.device_config.device_type),
        "dtype": str(config.model_config.dtype).removeprefix("torch."),
        "attention": backend.name if backend else "chosen by vLLM",
        "batch_size": batch_size,
    }


Backend = TransformersBackend | VLLMBackend
BACKENDS = {"transformers": TransformersBackend, "vllm": VLLMBackend}
