"""`gather_head_with_model` lets DeepSpeed's ZeRO-3 train a model that is also scored."""

from torch import nn

from ...plausibility.checks.model_traits import causal_lm


def gather_head_with_model(model: nn.Module) -> None:
    """Have ZeRO-3 gather the LM head whenever the model runs, forward or backward.

    DeepSpeed learns the order of the modules from the pass that scores, which calls the LM head.
    TRL's loss reads the head's weight without calling the head, so that its backward pass would
    find the weight partitioned, and fail.

    Args:
        model: The policy.
    """
    import deepspeed  # pyright: ignore[reportMissingImports]  # from the extra `deepspeed`

    base = causal_lm(model)
    head = base.get_output_embeddings()
    for parameter in head.parameters() if head is not None else ():
        deepspeed.zero.register_external_parameter(base, parameter)
