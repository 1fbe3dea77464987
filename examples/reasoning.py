"""Train the shipped model of 0.9 M parameters on search problems: a minute or two on a CPU."""

from datasets import Dataset

from barl_trl import BARLConfig, BARLTrainer
from barl_trl.rewards import accuracy_reward
from barl_trl.synthetic.search import TINY_MODEL_DIR, search_rows

trainer = BARLTrainer(
    model=str(TINY_MODEL_DIR),
    reward_funcs=accuracy_reward,
    args=BARLConfig(
        "outputs/reasoning",
        overwrite_output_dir=True,  # what an earlier run left there is deleted
        step_size=12,  # tokens of a reasoning step
        max_steps=20,
        per_device_train_batch_size=64,  # 8 prompts with 8 rollouts
        max_completion_length=96,
        learning_rate=3e-4,
        use_cpu=True,
        bf16=False,
        log_beliefs=True,  # for barl inspect
    ),
    train_dataset=Dataset.from_list(search_rows(160, seed=0)),  # columns "prompt" and "solution"
)
trainer.train()
trainer.save_model()
