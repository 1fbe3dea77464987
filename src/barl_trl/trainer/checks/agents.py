"""What TRL cannot do with tools, environments and rollout functions, refused before it loads a
model.
"""

from typing import Any

from accelerate import PartialState
from accelerate.utils import parse_flag_from_env
from transformers.integrations import is_deepspeed_zero3_enabled

from ..barl_config import BARLConfig
from ..rollouts.agents import ROLLOUT_ANSWER


def check_agents(args: BARLConfig, train_dataset: Any, kwargs: dict[str, Any]) -> None:
    """Refuse tools, environments and rollout functions that TRL does not train rightly.

    Args:
        args: The trainer's `args`.
        train_dataset: The trainer's `train_dataset`.
        kwargs: The trainer's other arguments, by name.

    Raises:
        ValueError: TRL cannot run them with the other arguments.
    """
    given = [name for name in ("tools", "environment_factory") if kwargs.get(name)]
    if not given:
        return
    name = given[0]
    if kwargs.get("rollout_func") is not None:
        raise ValueError(
            f"rollout_func must be None with {name}, got {kwargs['rollout_func']!r}: TRL would run "
            "its loop of tools on what the function returns, and ignore its env_mask. Call the "
            "tools in the function, or leave it out."
        )
    if train_dataset is None:
        raise ValueError(
            f"train_dataset must be given with {name}, got None: the rollouts of a group must "
            "share a task, and a truth. Give each task a row, from which reset takes it."
        )
    if args.use_vllm and args.vllm_mode == "server" and PartialState().num_processes > 1:
        raise ValueError(
            f"vllm_mode must be 'colocate' with {name} on {PartialState().num_processes} "
            "processes, got 'server': TRL's loop of tools would mix up the processes' rollouts."
        )
    is_fsdp = args.fsdp or parse_flag_from_env("ACCELERATE_USE_FSDP")
    if (is_fsdp or is_deepspeed_zero3_enabled()) and not args.use_vllm:
        raise ValueError(
            f"use_vllm must be True with {name} where parameters are sharded (ZeRO-3, FSDP), got "
            "False: the processes would generate unequally often, and wait for each other. Or "
            "shard less: ZeRO-2 trains agents with transformers' generation."
        )
    first = next(iter(train_dataset), {})
    if isinstance(first.get("prompt"), str):
        raise ValueError(
            f"train_dataset must have messages as prompts with {name}, got the text "
            f"{first['prompt']!r:.80}: make it [{{'role': 'user', 'content': ...}}]."
        )
    for column in ("environments", ROLLOUT_ANSWER):
        if column in first:
            raise ValueError(
                f"train_dataset must have no column {column!r} with {name}, got {[*first]}: reward "
                "functions get an argument of that name. Rename the column, or remove it."
            )
