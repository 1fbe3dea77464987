"""Problems of reasoning-gym, judged by its own scorer. Install: pip install reasoning-gym."""

import reasoning_gym
from training import train

from barl_trl.graders import extract_answer
from barl_trl.rewards import completion_text

SIZES = {"min_terms": 2, "max_terms": 2, "min_digits": 1, "max_digits": 1}
PROBLEMS = reasoning_gym.create_dataset("chain_sum", seed=0, size=64, **SIZES)


def score(completions, number, **columns):
    answers = [extract_answer(completion_text(completion)) for completion in completions]
    return [PROBLEMS.score_answer(a, PROBLEMS[n]) for a, n in zip(answers, number, strict=True)]


if __name__ == "__main__":
    rows = [
        {"prompt": [{"role": "user", "content": one["question"]}], "solution": one["answer"]}
        for one in PROBLEMS
    ]
    rows = [row | {"number": n} for n, row in enumerate(rows)]
    train(rows, {"step_size": 16, "max_completion_length": 64}, reward_funcs=score)
