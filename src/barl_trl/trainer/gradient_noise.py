"""How much of a step's gradient is signal, estimated from its first micro-batch and from all."""

from statistics import fmean
from typing import Any

import torch
from torch import Tensor, nn
from trl import GRPOTrainer

SIGNAL, NOISE = "gradient/signal", "gradient/noise"


class GradientNoiseMixin(GRPOTrainer):
    r"""Log `gradient_snr`, the signal-to-noise ratio of the gradient of an optimizer step.

    The step's gradient is the mean of n micro-batches' (of all processes), whose expectation is G
    and whose covariance is S: the ratio is $|G|^2 / (\mathrm{tr} S / n)$. Both parts come from two
    norms: see [`signal_and_noise`]. They are averaged over the steps between two logs before they
    are divided; a ratio near 0 or below says that the noise hides the signal.

    Nothing is logged where a step has one micro-batch, where gradients are sharded (DeepSpeed,
    FSDP), or where the estimate of the noise is not positive.

    What it relies on in TRL: `training_step` leaves the gradients of a step's micro-batches summed
    up and divided by their number, not yet clipped, and finds none before the first of them;
    `_metrics` is averaged and emptied by `log`.
    """

    model: Any
    _first_square = 0.0

    def training_step(self, model, inputs, num_items_in_batch):  # noqa: D102 (TRL's)
        is_first = all(p.grad is None for p in self.model.parameters())
        loss = super().training_step(model, inputs, num_items_in_batch)
        steps = self.current_gradient_accumulation_steps
        if steps < 2 or self.is_deepspeed_enabled or self.is_fsdp_enabled:
            return loss
        if is_first:
            first = steps**2 * squared_norm(self.model)
            of_all_processes: Any = self.accelerator.reduce(first, "mean")
            self._first_square = of_all_processes.item()
        if self.accelerator.sync_gradients:
            number = steps * self.accelerator.num_processes
            of_all = squared_norm(self.model).item()
            parts = signal_and_noise(self._first_square, of_all, number)
            for name, part in zip((SIGNAL, NOISE), parts, strict=True):
                self._metrics["train"][name].append(part)
        return loss

    def log(self, logs, start_time=None):  # noqa: D102 (TRL's)
        signal, noise = (self._metrics["train"].pop(name, []) for name in (SIGNAL, NOISE))
        if signal and fmean(noise) > 0:
            self._metrics["train"]["gradient_snr"].append(fmean(signal) / fmean(noise))
        super().log(logs, start_time)


def signal_and_noise(first_square: float, mean_square: float, number: int) -> tuple[float, float]:
    r"""Estimate $|G|^2$ and $\mathrm{tr} S / n$ without bias (arXiv 1812.06162, appendix A.1).

    $|g_1|^2$ has the expectation $|G|^2 + \mathrm{tr} S$, $|\bar g|^2$ has $|G|^2 + \mathrm{tr} S /
    n$.

    Args:
        first_square: Squared norm of the gradient of one micro-batch.
        mean_square: Squared norm of the mean of all.
        number: How many there are, n; at least 2.
    """
    noise = (first_square - mean_square) / (number - 1)
    return mean_square - noise, noise


def squared_norm(model: nn.Module) -> Tensor:
    """Return the squared norm of the gradient of a model's parameters, in float32."""
    gradients = [p.grad for p in model.parameters() if p.grad is not None]
    return torch.nn.utils.get_total_norm(gradients).float().square()
