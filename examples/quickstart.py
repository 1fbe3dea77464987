"""Train the shipped agent of 0.2 M parameters to ask questions: a minute or two on a CPU."""

from datasets import Dataset

from barl_trl import BARLConfig, BARLTrainer
from barl_trl.synthetic.number import NUMBER_MODEL_DIR, NumberGame, found_secret, number_rows

trainer = BARLTrainer(
    model=str(NUMBER_MODEL_DIR),
    reward_funcs=found_secret,  # 1 for the right number, 0 for any other
    args=BARLConfig(
        "outputs/quickstart",
        overwrite_output_dir=True,  # what an earlier run left there is deleted
        credit="bayes",  # weighs each turn, also by what its reply rules out
        belief="task",  # NumberGame knows what a reply rules out
        hypotheses_column="candidates",  # the numbers from 1 to 16
        max_steps=100,
        per_device_train_batch_size=64,  # 8 games with 8 rollouts
        max_completion_length=64,  # of all turns, with what the tool returned
        max_tool_calling_iterations=4,  # four questions: "is it at least 9?"
        learning_rate=1e-3,
        lr_scheduler_type="constant",
        use_cpu=True,
        bf16=False,
        log_beliefs=True,  # for barl inspect
    ),
    train_dataset=Dataset.from_list(number_rows(800, seed=0)),
    environment_factory=NumberGame,
)
trainer.train()
print("`barl inspect outputs/quickstart` writes outputs/quickstart/inspect/index.html: open it.")
