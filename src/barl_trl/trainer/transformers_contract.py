"""What the fast paths rely on in transformers, and what of it is not there.

How `generate` hands its cache on is seen only when it runs: `plausibility/kv_cache.py` and
`evaluation/shrinking_batch.py` say once if they cannot use it.
"""

from .trl_contract import changed_functions

SHRINKS = "greedy evaluation drops rows that have ended"

FUNCTIONS = {
    "transformers.GenerationMixin.prepare_inputs_for_generation": (
        "self input_ids ... next_sequence_length is_first_iteration",
        SHRINKS,
    ),
    "transformers.GenerationMixin._update_model_kwargs_for_generation": (
        "self outputs model_kwargs ...",
        SHRINKS,
    ),
    "transformers.cache_utils.DynamicCache.batch_select_indices": ("self indices", SHRINKS),
    "transformers.integrations.sdpa_attention.sdpa_attention_forward": (
        "module query key value attention_mask ... is_causal",
        "scoring attends along trees",
    ),
}
"""Function -> its parameters, as in `trl_contract.PARAMETERS`, and what it is relied on for."""


def changes() -> list[str]:
    """Say what is not as barl-trl relies on it, and what it is relied on for."""
    return [f"{text} ({purpose})" for text, purpose in changed_functions(FUNCTIONS)]
