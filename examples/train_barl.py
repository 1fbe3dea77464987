"""Train with BARL from Python.

python examples/train_barl.py --model Qwen/Qwen2.5-Math-1.5B --data examples/problems.jsonl
accelerate launch --config_file accelerate_configs/ddp.yaml examples/train_barl.py --model …
"""

import argparse
from functools import partial

from transformers import AutoTokenizer

from barl_trl import BARLConfig, BARLTrainer
from barl_trl.data import PAPER_SYSTEM_PROMPT, load_problems
from barl_trl.rewards import accuracy_reward, format_reward
from barl_trl.steps import delimited_steps


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", default="Qwen/Qwen2.5-Math-1.5B")
    parser.add_argument("--data", default="examples/problems.jsonl")
    parser.add_argument("--output_dir", default="outputs/example")
    parser.add_argument("--max_steps", type=int, default=200)
    parser.add_argument("--max_completion_length", type=int, default=1024)
    parser.add_argument("--use_cpu", action="store_true")
    options = parser.parse_args()

    # (For a model without chat template: conversational=False, and no system prompt.)
    # Any file or Hub data set of problems and answers becomes the columns "prompt" and "solution".
    dataset, report = load_problems(options.data, system_prompt=PAPER_SYSTEM_PROMPT)
    print(report)

    tokenizer = AutoTokenizer.from_pretrained(options.model)
    args = BARLConfig(
        output_dir=options.output_dir,
        num_generations=4,  # rollouts of a prompt: their answers are its hypotheses
        per_device_train_batch_size=8,
        max_completion_length=options.max_completion_length,
        max_steps=options.max_steps,
        consistency_beta=1.0,  # the paper's beta
        log_completions=True,
        logging_steps=1,
        use_cpu=options.use_cpu,
        bf16=not options.use_cpu,
    )
    trainer = BARLTrainer(
        model=options.model,
        reward_funcs=[accuracy_reward, format_reward],  # their weighted sum is the outcome reward
        args=args,
        train_dataset=dataset,
        processing_class=tokenizer,
        # Reasoning steps are paragraphs here; without it they are `args.step_size` tokens.
        step_segmenter=partial(delimited_steps, decode=tokenizer.decode, delimiter="\n\n"),
    )
    trainer.train()
    trainer.save_model()


if __name__ == "__main__":
    main()
