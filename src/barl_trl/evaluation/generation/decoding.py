"""How tokens are drawn: temperature and cut-offs; and the settings of an agent's engine."""

from typing import NamedTuple


class Drawing(NamedTuple):
    """How tokens are drawn from a model's distribution. A cut-off that is None is not applied."""

    temperature: float = 0.0
    """Number that divides the logits. 0 means greedy decoding."""
    top_p: float | None = None
    """Probability, in (0, 1]. The likeliest tokens that together reach it are kept."""
    top_k: int | None = None
    """Number of the likeliest tokens that are kept."""
    min_p: float | None = None
    """Share, in [0, 1]. Tokens with at least this share of the largest probability are kept."""

    @property
    def settings(self) -> dict[str, float]:
        """The temperature and the cut-offs that are not None, by name."""
        return {name: value for name, value in self._asdict().items() if value is not None}

    def __str__(self) -> str:
        """Return the settings on one line."""
        if not self.temperature:
            return "greedy"
        return ", ".join(f"{name} {value:g}" for name, value in self.settings.items())


NO_CUT_OFF = {"top_p": 1, "top_k": 0, "min_p": 0}
"""Cut-off -> the value with which transformers and vLLM switch it off."""

AGENT_ENGINE_FIELDS = {
    "gpu_memory_utilization": "vllm_gpu_memory_utilization",
    "max_model_len": "vllm_max_model_length",
    "model_impl": "vllm_model_impl",
    "trust_remote_code": "trust_remote_code",
}
"""Argument of `vllm.LLM` -> the field of TRL's configuration by which TRL's loop takes it."""
