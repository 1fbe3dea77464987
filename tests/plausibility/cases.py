"""Rollouts and answers that are scored in many ways: edge cases, and groups of one prompt."""

import torch

from barl_trl.plausibility.queries import Answer, Rollout

VOCAB = 97
ELICITATION = [11, 12, 13, 14]


def ids(count, seed=0):
    generator = torch.Generator().manual_seed(1000 * seed + count)
    return torch.randint(20, VOCAB, (count,), generator=generator).tolist()


def group(prompt, lengths, answers):
    """Rollouts of one prompt; their own log-probabilities are asked for, too."""
    return [
        Rollout(
            [*prompt, *ids(length, seed)],
            [len(prompt), *range(len(prompt) + 8, len(prompt) + length, 8), len(prompt) + length],
            answers,
            None,
            len(prompt),
        )
        for seed, length in enumerate(lengths)
    ]


BASE = ids(5)
EDGE_CASES = {
    "usual": Rollout(ids(40), [7, 15, 23, 31, 40], [Answer(BASE, 1), Answer(ids(4), 1)]),
    "other_prompt_and_completion_length": Rollout(ids(29, 1), [12, 20, 28, 29], [Answer(ids(3))]),
    "empty_completion": Rollout(ids(9), [9], [Answer(BASE, 1), Answer(ids(2), 1)]),
    "one_token_rollout": Rollout(ids(1), [1], [Answer(BASE)]),
    "ends_on_a_step_boundary": Rollout(ids(21), [5, 13, 21], [Answer(BASE, 1)]),
    "tokens_behind_the_last_state": Rollout(ids(30), [5, 13], [Answer(BASE, 1)]),
    "one_token_answers": Rollout(ids(20), [4, 20], [Answer(ids(1)), Answer(ids(1, 1))]),
    "one_scored_token": Rollout(ids(20), [4, 20], [Answer(BASE, 4), Answer(BASE[:2], 1)]),
    "answer_is_prefix_of_another": Rollout(
        ids(20), [4, 12, 20], [Answer(BASE, 1), Answer(BASE[:3], 1), Answer([*BASE, 30], 1)]
    ),
    "equal_answers": Rollout(ids(20), [4, 20], [Answer(BASE, 1)] * 3),
    "no_hypotheses": Rollout(ids(20), [4, 12, 20], []),
    "many_hypotheses": Rollout(ids(17), [3, 17], [Answer(ids(3, seed)) for seed in range(7)]),
    "long_answer": Rollout(ids(17), [3, 17], [Answer(ids(19), 1), Answer(ids(2))]),
    "own_elicitations": Rollout(ids(20), [4, 12, 20], [Answer(BASE)], [[90, 11], [], [91]]),
}
ALL = list(EDGE_CASES.values())

ANSWERS = [Answer(BASE, 1), Answer(ids(4), 1), Answer([*BASE[:3], 30], 1)]
BRANCH = len(ELICITATION) + 4 + 3  # all that is fed of the third answer is the first one's
GROUPS = {
    "prompt shared": group(ids(60), [12, 20, 1, 17], ANSWERS),
    "prompt not worth it": group(ids(6), [12, 20, 17], ANSWERS),
    "no hypotheses": group(ids(30), [9, 10], []),
}
