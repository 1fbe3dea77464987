"""What training holds in memory, for `barl plan`: always, and at the peaks of a step.

What lives at a peak is counted on PyTorch's fake tensors. They have shapes, types and storages, and
no numbers: a forward and a backward pass of any size and family takes a second or two.
"""

import logging
import weakref
from collections.abc import Iterable
from typing import Any, NamedTuple

import torch
from peft import PeftConfig, get_peft_model
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.func import functional_call
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from transformers import AutoModelForCausalLM, PreTrainedConfig
from trl.trainer.utils import add_fused_lm_head

# it logs every exception that passes through it
logging.getLogger("torch._subclasses.fake_tensor").disabled = True

_HEAD_TOKENS, _HEAD_VOCABULARY = 4096, 32768
"""A tile of logits in TRL's fused head (1.16): tokens by entries of the vocabulary."""


def count_parameters(
    config: PreTrainedConfig, peft_config: PeftConfig | None = None
) -> tuple[int, int, int]:
    """Count the parameters of a model without allocating them.

    Returns:
        The number of all parameters, of the trained ones, and of the weights of linear layers that
        are not trained, without the output head: what is quantized.
    """
    with torch.device("meta"):
        model: Any = AutoModelForCausalLM.from_config(config)
        if peft_config is not None:
            model = get_peft_model(model, peft_config)
    trained = sum(p.numel() for p in model.parameters() if p.requires_grad)
    head = model.get_output_embeddings()
    linear = [m for m in model.modules() if isinstance(m, nn.Linear) and m is not head]
    frozen = sum(m.weight.numel() for m in linear if not m.weight.requires_grad)
    return sum(p.numel() for p in model.parameters()), trained, frozen


def optimizer_bytes(optim: str, itemsize: int) -> int:
    """Return the bytes that the optimizer `TrainingArguments.optim` keeps for a parameter.

    A state has `itemsize` bytes, unless the name says 8 bits.

    Example:
        >>> optimizer_bytes("adamw_torch_fused", 4), optimizer_bytes("lion_8bit", 4)
        (8, 1)
    """
    if "sgd" in optim or "adafactor" in optim:
        return 0
    num_states = 1 if any(name in optim for name in ("lion", "rmsprop", "adagrad")) else 2
    return num_states * (1 if "8bit" in optim else itemsize)


class Passes(NamedTuple):
    """The forward and backward passes of a device.

    Args:
        rows: Rollouts of a micro-batch.
        generated: Rollouts that are generated at once; 0 if another engine does.
        prompt: Tokens of a prompt.
        completion: Tokens of a completion.
        accumulates: Whether gradients of an earlier micro-batch are there.
        checkpointing: Whether activations are computed again in the backward pass.
        dtype: Type of the parameters.
        autocast: Type that the forward pass computes in, if it is another.
        on_cpu: Whether TRL's head runs without Triton.
    """

    rows: int
    generated: int
    prompt: int
    completion: int
    accumulates: bool = False
    checkpointing: bool = False
    dtype: torch.dtype = torch.float32
    autocast: torch.dtype | None = None
    on_cpu: bool = False

    def head_bytes(self, vocabulary: int, width: int, *, is_trained: bool) -> int:
        """Return the bytes of TRL's fused head that must be added to what `peaks` counts.

        On a GPU they are those of a tile of logits, and of the gradients of the hidden states and
        of the head in 32 bits. On a CPU the head runs, and is counted, like the rest of the model;
        but if its tile is wider than the vocabulary, the end of the tile is never touched, and its
        bytes are subtracted.
        """
        tokens = self.rows * (self.completion + (self.prompt if self.on_cpu else 0))
        column = min(tokens, _HEAD_TOKENS) * (self.autocast or self.dtype).itemsize
        if self.on_cpu:
            return -column * max(0, _HEAD_VOCABULARY - vocabulary)
        return column * _HEAD_VOCABULARY + 4 * width * (tokens + vocabulary * is_trained)


def peaks(
    config: PreTrainedConfig,
    passes: Passes,
    peft_config: PeftConfig | None = None,
    *,
    attention: str | None = None,
) -> tuple[int, int]:
    """Run a model without data, and count the bytes that live at once beside the parameters.

    Returns:
        The bytes at the peak of the update, gradients included; and the bytes of the keys and
        values of all generated rollouts, when generation ends.

    Raises:
        Exception: The model's forward pass needs the numbers in its tensors; any class is possible.
    """
    with torch.device("meta"):
        model: Any = AutoModelForCausalLM.from_config(
            config, dtype=passes.dtype, attn_implementation=attention
        )
        add_fused_lm_head(model, outputs=("log_probs", "entropy"))
        if peft_config is not None:
            model = get_peft_model(model, peft_config)
    if passes.checkpointing:
        model.gradient_checkpointing_enable({"use_reentrant": False})
        model.enable_input_require_grads()
    run = _Passes(model, passes)
    with FakeTensorMode():
        tensors = {
            name: torch.empty(t.shape, dtype=t.dtype, requires_grad=t.requires_grad)
            for name, t in [*run.named_parameters(), *run.named_buffers()]
        }
        trained = [tensor for tensor in tensors.values() if tensor.requires_grad]
        earlier: list[torch.Tensor] = []
        for tensor in trained if passes.accumulates else []:
            tensor.grad = torch.empty_like(tensor)
            earlier.append(tensor.grad)
        run.live = _LiveBytes([*tensors.values(), *earlier])
        update, kept, cache = functional_call(run, tensors, ())
    head: Any = model.get_output_embeddings()
    vocabulary, width = head.weight.shape
    in_head = passes.head_bytes(vocabulary, width, is_trained=peft_config is None)
    update = update + in_head if passes.on_cpu else max(update, kept + in_head)
    return update + sum(gradient.nbytes for gradient in earlier), cache


class _Passes(nn.Module):
    """The passes as a module, whose tensors can be replaced by fake ones."""

    live: "_LiveBytes"

    def __init__(self, model: nn.Module, passes: Passes):
        super().__init__()
        self.model, self.passes = model, passes

    def forward(self) -> tuple[int, int, int]:
        """Return the bytes at the update's peak, kept for the backward pass, and of the cache."""
        model: Any = self.model
        passes, length = self.passes, self.passes.prompt + self.passes.completion
        with self.live as live:
            model.train()
            if passes.on_cpu:
                labels = torch.zeros(passes.rows, length).long()
                outputs = self._fed(passes.rows, labels=labels, fused_lm_head=True).log_probs
            else:
                outputs = self._fed(passes.rows, logits_to_keep=1).logits
            kept = live.now
            outputs.sum().backward()
            del outputs
            update, live.now = live.most, 0
            if not passes.generated:
                return update, kept, 0
            with torch.no_grad():
                model.eval()
                if passes.checkpointing:  # as TRL does where it generates
                    model.gradient_checkpointing_disable()
                outputs = self._fed(passes.generated, use_cache=True, logits_to_keep=1)
                outputs.logits = None
                return update, kept, live.now

    def _fed(self, rows: int, **inputs: Any) -> Any:
        passes = self.passes
        ids = torch.zeros(rows, passes.prompt + passes.completion).long()
        with torch.autocast("cpu", passes.autocast, enabled=passes.autocast is not None):
            return self.model(input_ids=ids, attention_mask=torch.ones_like(ids), **inputs)


class _LiveBytes(TorchDispatchMode):
    """Count the bytes of the tensors that are made inside: those that live `now`, and the `most`.

    Tensors in `uncounted` are not counted, nor are views of them.
    """

    def __init__(self, uncounted: Iterable[torch.Tensor] = ()):
        super().__init__()
        self.now = self.most = 0
        self._seen: weakref.WeakSet[Any] = weakref.WeakSet()
        for tensor in uncounted:
            self._seen.add(tensor.untyped_storage())

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **kwargs or {})
        for tensor in tree_leaves(result):
            if isinstance(tensor, torch.Tensor):
                self._count(tensor.untyped_storage())
        return result

    def _count(self, storage: Any) -> None:
        if storage not in self._seen:
            self._seen.add(storage)
            self.now += storage.nbytes()
            self.most = max(self.most, self.now)
            weakref.finalize(storage, self._freed, storage.nbytes())

    def _freed(self, size: int) -> None:
        self.now -= size
