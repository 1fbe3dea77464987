"""Scoring on a device that only looks like one: its tensors lie on the CPU, but fail where they
meet the CPU's own, as a GPU's do.

`python -m tests.plausibility.other_device`: a process of its own, which has one accelerator.
"""

from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map
from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

from .cases import ALL, GROUPS
from .models import SHARED, make
from .oracle import score

DEVICE = torch.device("privateuseone:0")  # PyTorch's name for one that it does not know
aten = torch.ops.aten
COPIES = {aten._to_copy.default, aten.copy_.default}
TAKES_CPU_INDICES = {aten.index.Tensor, aten.index_put_.default, aten._index_put_impl_.default}


class DeviceTensor(torch.Tensor):
    """A tensor of the device."""

    @staticmethod
    def __new__(cls, stored):
        tensor: Any = torch.Tensor._make_wrapper_subclass(
            cls, stored.size(), strides=stored.stride(), dtype=stored.dtype, device=DEVICE
        )
        tensor.stored = stored
        return tensor

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        return computed(func, args, kwargs or {})


def stored(value):
    return value.stored if isinstance(value, DeviceTensor) else value


def computed(func, args, kwargs):
    """What an operation gives on the CPU, on the device that it belongs to."""
    tensors = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
    is_ours = any(isinstance(tensor, DeviceTensor) for tensor in tensors)
    strangers = [t for t in tensors if not isinstance(t, DeviceTensor) and t.dim()]
    if func in TAKES_CPU_INDICES and isinstance(args[0], DeviceTensor):
        indices = tree_leaves(args[1])
        strangers = [t for t in strangers if not any(t is index for index in indices)]
    if is_ours and strangers and func not in COPIES:
        raise RuntimeError(f"{func} of tensors on two devices")
    wanted = kwargs.get("device")
    if wanted is not None:
        is_ours, kwargs = wanted.type == DEVICE.type, {**kwargs, "device": torch.device("cpu")}
    result = func(*tree_map(stored, args), **tree_map(stored, kwargs))
    if func._schema.name.endswith("_"):
        return args[0]
    return tree_map(
        lambda x: DeviceTensor(x) if is_ours and isinstance(x, torch.Tensor) else x, result
    )


class Dispatch(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return computed(func, args, kwargs or {})


class Functions(TorchFunctionMode):
    """What a device in Python lacks of one in C++."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        if func is torch.tensor and torch.device(kwargs.get("device") or "cpu") == DEVICE:
            return func(*args, **{**kwargs, "device": "cpu"}).to(DEVICE)
        if func is torch.Tensor.tolist:
            with torch._C.DisableTorchFunction():
                return stored(args[0]).tolist()
        if func is torch.Tensor.__getitem__ and isinstance(args[1], list):
            args = (args[0], torch.tensor(args[1]))
        return func(*args, **kwargs)


def moved(model):
    """The model on the device: `to` would put the tensors into parameters that are there."""
    for module in model.modules():
        for name, parameter in module.named_parameters(recurse=False):
            tensor = torch.nn.Parameter(DeviceTensor(parameter.detach()), requires_grad=False)
            setattr(module, name, tensor)
        for name, buffer in module.named_buffers(recurse=False):
            setattr(module, name, DeviceTensor(buffer))
    return model


def check_scoring(family):
    rollouts = [*ALL, *GROUPS["prompt shared"]]
    model, other = make(family, **SHARED[family]), moved(make(family, **SHARED[family]))
    for options in ({}, {"max_tokens": 50}, {"method": "reencode"}):
        expected = score(model, rollouts, **options)
        with Functions(), Dispatch():
            found = score(other, rollouts, **options)
        assert {tensor.device for tensor in found[:4]} == {DEVICE}
        assert found.num_tokens == expected.num_tokens  # no error made it re-encode
        torch.testing.assert_close(
            stored(found.answer_logps), expected.answer_logps, atol=1e-4, rtol=1e-4
        )


if __name__ == "__main__":
    _setup_privateuseone_for_python_backend()  # not before: pytest imports this module, too
    for name in ("qwen2", "gemma2"):  # pieces, masks
        check_scoring(name)
