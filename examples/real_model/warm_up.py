"""Show a model a few worked solutions, so that its answers stand in a box and can be rewarded.

`python examples/real_model/warm_up.py MODEL SOLUTIONS.jsonl FOLDER [--steps 10]`. This is TRL's
supervised fine-tuning, a step of eight solutions, all weights in float32 on the CPU.
"""

import argparse

from datasets import load_dataset
from transformers import AutoTokenizer
from trl import SFTConfig, SFTTrainer

from barl_trl.data import PAPER_SYSTEM_PROMPT


def conversation(row: dict[str, str]) -> dict[str, list[dict[str, str]]]:
    """Return prompt and completion as training and evaluation write them."""
    return {
        "prompt": [
            {"role": "system", "content": PAPER_SYSTEM_PROMPT},
            {"role": "user", "content": row["problem"]},
        ],
        "completion": [{"role": "assistant", "content": row["solution"]}],
    }


def main() -> None:
    """Train, and save the model with its tokenizer."""
    parser = argparse.ArgumentParser(description="Show a model a few worked solutions.")
    parser.add_argument("model")
    parser.add_argument("solutions")
    parser.add_argument("folder")
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--learning_rate", type=float, default=1e-4)
    args = parser.parse_args()
    rows = load_dataset("json", data_files=args.solutions, split="train")
    trainer = SFTTrainer(
        model=args.model,
        args=SFTConfig(
            output_dir=args.folder,
            max_steps=args.steps,
            per_device_train_batch_size=8,
            learning_rate=args.learning_rate,
            lr_scheduler_type="linear",
            warmup_steps=2,
            logging_steps=1,
            save_strategy="no",
            report_to="none",
            use_cpu=True,
            bf16=False,
            gradient_checkpointing=False,
            model_init_kwargs={"dtype": "float32"},
            seed=0,
        ),
        train_dataset=rows.map(conversation, remove_columns=rows.column_names),
        processing_class=AutoTokenizer.from_pretrained(args.model),
    )
    trainer.train()
    trainer.save_model()


if __name__ == "__main__":
    main()
