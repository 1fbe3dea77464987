"""Standardising token weights over a rollout batch, or within each prompt's group.

Both may be spread over processes.
"""

from collections.abc import Callable

from jaxtyping import Bool, Float, Int
from torch import Tensor


def moments(
    values: Float[Tensor, "batch token"],
    mask: Bool[Tensor, "batch token"],
    groups: Int[Tensor, " batch"],
    *,
    num_groups: int,
) -> Float[Tensor, "group 3"]:
    """Return count, sum and sum of squares of each group's valid values, in float64.

    Add up the moments of all processes before [`standardize`].
    """
    x = values.double() * mask
    sums = values.new_zeros(len(values), 3).double()
    for column, statistic in enumerate((mask.double(), x, x * x)):
        sums[:, column] = statistic.sum(dim=1)
    return sums.new_zeros(num_groups, 3).index_add_(0, groups, sums)


def standardize(
    values: Float[Tensor, "batch token"],
    groups: Int[Tensor, " batch"],
    group_moments: Float[Tensor, "group 3"],
    *,
    min_variance: float = 1e-8,
) -> Float[Tensor, "batch token"]:
    """Return `(values - mean) / std` of each row's group; a constant group becomes 0.

    `min_variance` has the value of the paper's released code.
    """
    count, total, squares = group_moments.unbind(dim=1)
    mean = total / count.clamp(min=1)
    std = (squares / count.clamp(min=1) - mean**2).clamp(min=min_variance).sqrt()
    return ((values - mean[groups, None]) / std[groups, None]).to(values.dtype)


def whiten(
    values: Float[Tensor, "batch token"],
    mask: Bool[Tensor, "batch token"],
    groups: Int[Tensor, " batch"],
    *,
    num_groups: int,
    sum_over_processes: Callable[[Tensor], Tensor],
) -> Float[Tensor, "batch token"]:
    """Standardise the valid values over the groups of all processes; the others become 0."""
    totals = sum_over_processes(moments(values, mask, groups, num_groups=num_groups))
    return standardize(values, groups, totals).masked_fill(~mask, 0.0)
