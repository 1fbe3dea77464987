"""The signal in a step's gradient, against the gradients of its micro-batches."""

import pytest
import torch

from barl_trl import BARLTrainer
from barl_trl.trainer.gradient_noise import signal_and_noise
from barl_trl.trainer.methods import BaselineTrainer

from .rollouts import PROBLEMS, config, trainer


def summed_gradients(cls):
    """A trainer that notes the gradients that each micro-batch leaves, as one vector."""

    class Noting(cls):
        def training_step(self, *args):
            loss = super().training_step(*args)
            grads = [p.grad.flatten() for p in self.model.parameters() if p.grad is not None]
            self.noted = [*getattr(self, "noted", []), torch.cat(grads)]
            return loss

    return Noting


@pytest.mark.parametrize("cls", [BARLTrainer, BaselineTrainer])
def test_signal_and_noise_are_those_of_the_micro_batches(model, tokenizer, tmp_path, cls):
    args = config(
        tmp_path, per_device_train_batch_size=2, gradient_accumulation_steps=4, loss_type="grpo"
    )
    made = trainer(model, tokenizer, args, rows=PROBLEMS[::-1], cls=summed_gradients(cls))
    made.train()
    sums = torch.stack(made.noted).double()
    of_each = 4 * sums.diff(dim=0, prepend=torch.zeros_like(sums[:1]))
    mean, first = of_each.mean(dim=0), of_each[0]
    difference = (first @ first - mean @ mean) / 3
    signal = mean @ mean - difference
    [log] = [log for log in made.state.log_history if "loss" in log]
    assert log["gradient_snr"] == pytest.approx((signal / difference).item(), rel=1e-3)


def test_signal_and_noise_have_no_bias():
    """Over all choices of the first one, the signal is the mean product of two others' gradients,
    and the noise the variance of the mean.
    """
    g = torch.randn(4, 7, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    mean = g.mean(dim=0)
    products = g @ g.T
    parts = [signal_and_noise((one @ one).item(), (mean @ mean).item(), 4) for one in g]
    signal, noise = (sum(part) / 4 for part in zip(*parts, strict=True))
    assert signal == pytest.approx(((products.sum() - products.trace()) / 12).item())
    assert noise == pytest.approx((g.var(dim=0).sum() / 4).item())


def test_one_micro_batch_says_nothing(model, tokenizer, tmp_path):
    made = trainer(model, tokenizer, config(tmp_path))
    made.train()
    assert not any("gradient_snr" in log for log in made.state.log_history)
