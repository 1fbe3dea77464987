"""What ZeRO-3 must know of a model that is scored."""

from torch import nn

from ...plausibility.checks.model_traits import causal_lm


def gather_head_with_model(model: nn.Module) -> None:
    """Have ZeRO-3 gather the LM head whenever the model runs, forward or backward.

    DeepSpeed learns the order of the modules from the pass that scores, where the head is called.
    TRL's loss reads the head's weight instead: its backward would find it partitioned, and fail.
    """
    import deepspeed  # pyright: ignore[reportMissingImports]  # the extra of that name

    base = causal_lm(model)
    head = base.get_output_embeddings()
    for parameter in head.parameters() if head is not None else ():
        deepspeed.zero.register_external_parameter(base, parameter)
