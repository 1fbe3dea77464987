r"""How good a batch's gradient is: bias and quality, corrected for noise, with paired errors.

Gradients of N batches are samples of a mean and a covariance. Products of different batches have no
noise in common, so that their mean estimates products of the means:

$$\mathrm{bias} = \frac{\overline{x_i \cdot r_j}}{\sqrt{\overline{x_i \cdot x_j} \; \overline{r_i
\cdot r_j}}}, \qquad \mathrm{quality} = \frac{\overline{x_i \cdot r_j}}{\sqrt{\overline{x_i \cdot
x_i} \; \overline{r_i \cdot r_j}}} \qquad (i \ne j)$$

for the gradients x of an arm and r of the reference. The bias is the cosine of the mean gradient
with the true one, the quality is the cosine of one batch's gradient with it. Errors are those of
the jackknife over batches.
"""

from collections.abc import Mapping
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor


class Jackknifed(NamedTuple):
    """A number and its standard error, by leaving one batch out."""

    value: float
    error: float


class GradientQuality(NamedTuple):
    """How an arm's gradients point, compared with the reference and with another arm."""

    bias: Jackknifed
    """Cosine of the mean gradient with the true one; NaN where noise hides its length."""
    quality: Jackknifed
    """Cosine of one batch's gradient with the true one."""
    gain: Jackknifed
    """Quality of this arm minus the quality of the arm that it is compared with."""


def gradient_quality(
    gradients: Float[Tensor, "sample parameter"],
    reference: Float[Tensor, "sample parameter"],
    compared: Float[Tensor, "sample parameter"],
) -> GradientQuality:
    """Compare gradients of the same N batches.

    Args:
        gradients: Gradients of the arm.
        reference: Gradients of an unbiased estimator: their mean is the true gradient.
        compared: Gradients of the arm that it is compared with.

    Raises:
        ValueError: There are fewer than 3 batches.
    """
    if len(gradients) < 3:
        raise ValueError(
            f"gradients must be of at least 3 batches, got {len(gradients)}: errors come from "
            "leaving one out."
        )
    products, other = _Products(gradients, reference), _Products(compared, reference)
    return GradientQuality(
        _jackknifed(products.bias),
        _jackknifed(products.quality),
        _jackknifed(products.quality - other.quality),
    )


def effects(
    gradients: Float[Tensor, "sample parameter"],
    directions: Mapping[str, Float[Tensor, "sample parameter"]],
    reference: Float[Tensor, "sample parameter"],
    *,
    points: float = 0.01,
) -> dict[str, Jackknifed]:
    """Say what a step in an arm's mean direction does to other quantities, to first order.

    Args:
        gradients: Gradients of the arm.
        directions: Gradients of the quantities, by name, of the same batches.
        reference: Gradients of the mean outcome.
        points: The step is so long that it raises the mean outcome by this in the direction of the
            true gradient.

    Returns:
        Change of each quantity; NaN where noise hides the length of the arm's mean gradient.
    """
    lengths = _Products(gradients, reference).lengths
    return {
        name: _jackknifed(points * _different(gradients @ direction.T) / lengths)
        for name, direction in directions.items()
    }


class _Products:
    """Cosines of an arm's gradients with the reference's.

    The first entry of each is of all batches; the others leave one batch out, in turn.

    Attributes:
        lengths: Product of the lengths of the two means, NaN where noise hides one.
        bias: Cosine of the mean gradient with the true one.
        quality: Cosine of one batch's gradient with the true one.
    """

    lengths: Float[Tensor, " subset"]
    bias: Float[Tensor, " subset"]
    quality: Float[Tensor, " subset"]

    def __init__(self, gradients: Tensor, reference: Tensor):
        of_arm, squares = gradients @ gradients.T, _different(reference @ reference.T)
        mixed = _different(gradients @ reference.T)
        self.lengths = _root(_different(of_arm) * squares)
        self.bias = mixed / self.lengths
        self.quality = mixed / _root(_same(of_arm) * squares)


def _different(products: Float[Tensor, "sample sample"]) -> Float[Tensor, " subset"]:
    """Return the mean product of two different batches: over all batches, then without each one."""
    number = len(products)
    off = products.double() - products.double().diagonal().diag()
    without = off.sum() - off.sum(dim=0) - off.sum(dim=1)
    everything = off.sum() / (number * (number - 1))
    return torch.cat([everything[None], without / ((number - 1) * (number - 2))])


def _same(products: Float[Tensor, "sample sample"]) -> Float[Tensor, " subset"]:
    """Return the mean product of a batch with itself: over all batches, then without each one."""
    squares = products.double().diagonal()
    without = (squares.sum() - squares) / (len(squares) - 1)
    return torch.cat([squares.mean()[None], without])


def _root(squares: Float[Tensor, " subset"]) -> Float[Tensor, " subset"]:
    return torch.where(squares > 0, squares, torch.nan).sqrt()


def _jackknifed(numbers: Float[Tensor, " subset"]) -> Jackknifed:
    """Return the number of all batches, and its jackknife error from those without each one."""
    without = numbers[1:]
    spread = ((without - without.mean()) ** 2).mean() * (len(without) - 1)
    return Jackknifed(numbers[0].item(), spread.sqrt().item())
