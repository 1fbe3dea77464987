"""What the fast paths rely on in transformers, and what of it is not there.

How `generate` hands its cache on is seen only when it runs: `plausibility/kv_cache.py` says once
if it cannot use it.
"""

from .trl_contract import changed_functions

FUNCTIONS = {
    "transformers.integrations.sdpa_attention.sdpa_attention_forward": (
        "module query key value attention_mask ... is_causal",
        "scoring attends along trees",
    ),
}
"""Function -> its parameters, as in `trl_contract.PARAMETERS`, and what it is relied on for."""


def changes() -> list[str]:
    """Say what is not as barl-trl relies on it, and what it is relied on for."""
    return [f"{text} ({purpose})" for text, purpose in changed_functions(FUNCTIONS)]
