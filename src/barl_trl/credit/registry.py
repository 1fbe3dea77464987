"""The estimators of credit by name, and what each needs. It imports no torch, so help is quick."""

import os
import sys
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from importlib import import_module
from inspect import Parameter, signature
from pkgutil import resolve_name
from typing import Any, Literal, NamedTuple


class Credit(NamedTuple):
    """An estimator, and the settings that it has where a configuration says nothing."""

    estimator: str | Callable[..., Any]
    """Function, or its path `module:name`: [`ScoredRollouts`] -> [`StepValues`]."""
    hypotheses: Literal["rollouts", "truth", "none"] = "rollouts"
    """Which answers are scored: the truth and those of the prompt's rollouts, the truth alone, or
    none, which costs no forward pass."""
    answer_likelihood: Literal["mean", "sum", "token_mean"] = "mean"
    """How an answer's tokens make its plausibility."""
    credit_baseline: Literal[
        "none", "batch", "group", "leave_one_out", "step", "state", "belief"
    ] = "none"
    """What is subtracted from the values of steps."""
    value_normalization: Literal["batch", "group", "none"] = "batch"
    """Over which tokens the values are whitened."""
    needs_truth: bool = True
    """Whether a rollout must have a true answer and an outcome to have a weight."""
    replaces_outcome: bool = False
    """Whether the belief's expectation replaces the outcome. Then the belief must not know the
    truth, as the consistency of progress rewards does, which is left out."""
    turn_rewards: Literal["to_go", "sum", "own"] = "to_go"
    """What rewards of turns do, if there are any: those from each step on join the step's value,
    their sum joins the outcome, or the estimator itself reads them."""

    @property
    def function(self) -> Callable[..., Any]:
        """The estimator itself."""
        return resolve_name(self.estimator) if isinstance(self.estimator, str) else self.estimator

    @property
    def parameters(self) -> dict[str, Parameter]:
        """The settings that the estimator takes: what is after the rollouts, without *args."""
        others = list(signature(self.function).parameters.values())[1:]
        variable = (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)
        return {other.name: other for other in others if other.kind not in variable}

    def settings(self, available: Mapping[str, Any]) -> dict[str, Any]:
        """Return the settings that the estimator takes; one that is None keeps its default.

        Args:
            available: Values by name, of which those in the mapping `credit_options` come first.
        """
        values = {**available, **(available.get("credit_options") or {})}
        return {
            name: values[name]
            for name, one in self.parameters.items()
            if name in values and (values[name] is not None or one.default is Parameter.empty)
        }


_HERE = "barl_trl.credit"
_PLAIN: Any = {"hypotheses": "none", "value_normalization": "none", "turn_rewards": "sum"}
_UNLABELLED: Any = {"credit_baseline": "step", "value_normalization": "none", "needs_truth": False}
_OF_TRUTH: Any = {"hypotheses": "truth", "value_normalization": "none"}
CREDITS = {
    "barl": Credit(f"{_HERE}.barl:barl"),
    "progress": Credit(f"{_HERE}.barl:progress", hypotheses="truth"),
    "grpo": Credit(f"{_HERE}.outcome:grpo", **_PLAIN),
    "rloo": Credit(f"{_HERE}.outcome:outcome", credit_baseline="leave_one_out", **_PLAIN),
    "turns": Credit(f"{_HERE}.turns:turns", hypotheses="none", turn_rewards="own", **_UNLABELLED),
    "gae": Credit(f"{_HERE}.gae:gae", hypotheses="truth"),
    "gae_posterior": Credit(f"{_HERE}.gae:gae_posterior"),
    "belief_critic": Credit(f"{_HERE}.belief_critic:belief_critic", hypotheses="truth"),
    "bayes": Credit(f"{_HERE}.bayes:bayes", replaces_outcome=True, **_UNLABELLED),
    "information_gain": Credit(f"{_HERE}.information_gain:information_gain", **_OF_TRUTH),
    "delta_belief": Credit(
        f"{_HERE}.delta_belief:delta_belief", answer_likelihood="sum", **_OF_TRUTH
    ),
    "rlpr": Credit(f"{_HERE}.likelihood:rlpr", answer_likelihood="token_mean", **_OF_TRUTH),
    "likelihood": Credit(
        f"{_HERE}.likelihood:likelihood",
        answer_likelihood="sum",
        credit_baseline="leave_one_out",
        **_OF_TRUTH,
    ),
}
"""The credits by name: the paper's, its baseline `progress`, and those of other papers."""


def find_credit(name: str) -> Credit:
    """Return the credit with a name, or at the dotted path of a function or a [`Credit`].

    Raises:
        ValueError: No credit has the name, or the path leads to no function and no [`Credit`].
    """
    if name in CREDITS:
        return CREDITS[name]
    if "." not in name:
        near = get_close_matches(name, CREDITS, n=1)
        hint = f"did you mean {near[0]!r}?" if near else "docs/credit.md says what each computes."
        raise ValueError(
            f"credit must be one of {list(CREDITS)} or a dotted path, got {name!r}: {hint}"
        )
    target = import_path(name, "credit")
    if not isinstance(target, Credit) and not callable(target):
        raise ValueError(
            f"credit must name a function of ScoredRollouts, or a Credit, got {name!r}, which is "
            f"of type {type(target).__name__}."
        )
    return target if isinstance(target, Credit) else Credit(target)


def import_path(path: str, argument: str) -> Any:
    """Import what a dotted path, as `my_module.my_function`, names, also in the working directory.

    Raises:
        ValueError: There is no such thing, or it cannot be imported. It names the `argument`.
    """
    # A console script, unlike `python -m`, does not have the working directory on its path. It is
    # put at the end, for it must not shadow a package, and stays there for what is imported later.
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())
    module, _, name = path.rpartition(".")
    try:
        return getattr(import_module(module), name)
    except (AttributeError, ImportError, SyntaxError, SystemExit, TypeError, ValueError) as error:
        raise ValueError(
            f"{argument} must be a dotted path that can be imported, got {path!r} ({error!r}): put "
            "its module beside the script, or on PYTHONPATH."
        ) from None
