"""Whether a model has the modules that an adapter is to change, before its weights are loaded."""

import re
from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any

import torch
from torch import nn
from transformers import MODEL_FOR_CAUSAL_LM_MAPPING, AutoConfig, AutoModelForCausalLM

_FROM_CONFIG = ("revision", "trust_remote_code")


def refuse_missing_modules(model: Any, peft_config: Any, init_kwargs: dict[str, Any]) -> None:
    """Refuse target modules of which a model has none; peft would, after the weights are loaded.

    Args:
        model: The trainer's `model`. Only a path or Hub id is looked at: the model is built without
            its weights.
        peft_config: The trainer's `peft_config`. To peft, its `target_modules` are names if they
            are a list, and a regular expression if they are a text; TRL's `ModelConfig` makes a
            list of one name a text.
        init_kwargs: The arguments with which the model will be loaded.

    Raises:
        ValueError: The model has no module of these names.
    """
    targets = getattr(peft_config, "target_modules", None)
    if not isinstance(model, str) or not targets or targets == "all-linear":
        return
    config = AutoConfig.from_pretrained(
        model, **{name: init_kwargs[name] for name in _FROM_CONFIG if init_kwargs.get(name)}
    )
    if type(config) not in MODEL_FOR_CAUSAL_LM_MAPPING:
        return
    with torch.device("meta"):
        modules: Any = AutoModelForCausalLM.from_config(config).named_modules()
    places = {name: module for name, module in modules if name}
    is_pattern = isinstance(targets, str)
    names = [targets] if is_pattern else sorted(targets)
    for place in places:
        if re.fullmatch(targets, place) if is_pattern else _is_named(place, names):
            return
    linear = {place.split(".")[-1] for place, m in places.items() if isinstance(m, nn.Linear)}
    near = [match for one in names for match in get_close_matches(one, linear, n=1)]
    hint = f"did you mean {near[0]!r}?" if near else "'all-linear' takes all of them."
    if is_pattern and any(_is_named(place, names) for place in places):
        hint = rf"one name alone is a regular expression of whole paths, here '.*\.{targets}'."
    raise ValueError(
        "lora_target_modules (target_modules of peft_config) must name modules of the model, got "
        f"{', '.join(names)!r} where there are {', '.join(sorted(linear))}: {hint}"
    )


def _is_named(place: str, names: Iterable[str]) -> bool:
    return any(place == name or place.endswith(f".{name}") for name in names)
