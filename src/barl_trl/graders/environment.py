"""What may be installed beside the graders and change their verdicts."""

import importlib.util
import logging
from functools import cache
from importlib import metadata

logger = logging.getLogger(__name__)

ANTLR_VERSION = "4.13.2"


@cache
def warn_of_environment() -> None:
    """Say once, in a line each, what is wrong with the antlr runtime, and that gmpy2 is there.

    latex2sympy2_extended's grammar is generated for antlr 4.13.2; under the versions that hydra
    (4.9) and lm-eval (4.11) ask for, every answer with a percent sign fails.
    """
    try:
        installed = metadata.version("antlr4-python3-runtime")
    except metadata.PackageNotFoundError:
        installed = "none"
    if installed != ANTLR_VERSION:
        logger.warning(
            "antlr4-python3-runtime must be %s for the math_verify grader, got %s: answers with a "
            "percent sign will be judged wrong; pip install 'math-verify[antlr4_13_2]'",
            ANTLR_VERSION,
            installed,
        )
    if importlib.util.find_spec("gmpy2"):
        logger.warning(
            "gmpy2 is installed: the graders' processes keep sympy from using it, for no time-out "
            "interrupts it; where your own code calls math-verify, set SYMPY_GROUND_TYPES=python"
        )
