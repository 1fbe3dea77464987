"""Standardising token weights over a rollout batch, or within each prompt's group.

Both may be spread over processes.
"""

from collections.abc import Callable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

_MIN_VARIANCE = 1e-8
"""Least variance of a group, as in the paper's released code: a constant group becomes 0."""


def whiten(
    values: Float[Tensor, "batch token"],
    mask: Bool[Tensor, "batch token"],
    groups: Int[Tensor, " batch"],
    *,
    num_groups: int,
    sum_over_processes: Callable[[Tensor], Tensor],
) -> Float[Tensor, "batch token"]:
    """Standardise the valid values over the groups of all processes; the others become 0.

    What processes add up is count, sum and sum of squares of each group's values, in float64.
    """
    x = values.double() * mask
    sums = torch.stack([one.sum(dim=1) for one in (mask.double(), x, x * x)], dim=1)
    moments = sums.new_zeros(num_groups, 3).index_add_(0, groups, sums)
    count, total, squares = sum_over_processes(moments).unbind(dim=1)
    mean = total / count.clamp(min=1)
    std = (squares / count.clamp(min=1) - mean**2).clamp(min=_MIN_VARIANCE).sqrt()
    standardized = (values - mean[groups, None]) / std[groups, None]
    return standardized.to(values.dtype).masked_fill(~mask, 0.0)
