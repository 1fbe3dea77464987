"""Answer log-likelihoods of every hypothesis at every state, for any causal language model.

README.md beside this file says why encoding every state is not enough, and how the files follow
each other.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .answer_logps import AnswerLogLikelihoods as AnswerLogLikelihoods
    from .answer_logps import answer_log_likelihoods as answer_log_likelihoods
    from .elicitation import Elicitation as Elicitation
    from .queries import Answer as Answer
    from .queries import Rollout as Rollout

# Resolved on first use, as in `barl_trl`: an elicitation's text is had without torch.
_MODULES = {
    "Answer": "queries",
    "AnswerLogLikelihoods": "answer_logps",
    "Elicitation": "elicitation",
    "Rollout": "queries",
    "answer_log_likelihoods": "answer_logps",
}
__all__ = sorted(_MODULES)  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str):
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_MODULES[name]}", __name__), name)
