"""What the examples share: two steps of training the shipped tiny model, seconds on a CPU."""

from datasets import Dataset

from barl_trl import BARLConfig, BARLTrainer
from barl_trl.synthetic.number import NUMBER_MODEL_DIR, number_rows

SETTINGS = {"max_steps": 2, "max_completion_length": 450, "logging_steps": 1, "log_beliefs": True}


def train(rows=None, settings=(), **arguments):
    """Train on rows, by default questions with the column `seed`, and write outputs/run."""
    rows = rows or [row | {"seed": n} for n, row in enumerate(number_rows(64, seed=0))]
    args = BARLConfig("outputs/run", use_cpu=True, bf16=False, **SETTINGS | dict(settings))
    data = Dataset.from_list(rows)
    BARLTrainer(str(NUMBER_MODEL_DIR), args=args, train_dataset=data, **arguments).train()
