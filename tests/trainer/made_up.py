"""Scored and weighed rollouts of one process, of which a test gives what it looks at."""

import torch

from barl_trl.credit.rollouts import ScoredRollouts
from barl_trl.credit.token_weights import TokenWeights


def rollouts(**given):
    """Of groups of one rollout, if nothing else is given; nothing is scored."""
    number = len(next(iter(given.values())))
    belief = given.get("belief", torch.zeros(number, 2, 0))
    defaults = {
        "outcomes": torch.zeros(number),
        "is_judged": torch.ones(number, dtype=torch.bool),
        "is_cut_off": torch.zeros(number, dtype=torch.bool),
        "groups": torch.arange(number),
        "state_mask": torch.ones(belief.shape[:2], dtype=torch.bool),
        "answer_logps": belief,
        "hypothesis_mask": torch.ones(number, belief.shape[2], dtype=torch.bool),
        "belief": belief,
        "members": [None] * number,
    }
    return ScoredRollouts(**defaults | given)


def weighed(values, mask=None):
    """Values of steps of one token, which are its weight."""
    mask = torch.ones(values.shape, dtype=torch.bool) if mask is None else mask
    return TokenWeights(values, values, values, mask)
