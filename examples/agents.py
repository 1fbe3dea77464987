"""Train the shipped model of 0.2 M parameters to ask questions: a minute on a CPU."""

from datasets import Dataset

from barl_trl import BARLConfig, BARLTrainer
from barl_trl.rewards import accuracy_reward
from barl_trl.synthetic.number import NUMBER_MODEL_DIR, number_rows


class NumberGame:
    """A secret number from 1 to 16. Public methods other than `reset` are the model's tools."""

    def reset(self, solution: str, **row) -> None:
        """Begin a game: TRL passes the columns of the row."""
        self.secret = int(solution)

    def at_least(self, number: int) -> str:
        """Ask whether the secret is at least a number.

        Args:
            number: The number.
        """
        return "yes" if self.secret >= number else "no"


if __name__ == "__main__":
    trainer = BARLTrainer(
        model=str(NUMBER_MODEL_DIR),
        reward_funcs=accuracy_reward,  # it judges the last message, in which the model answers
        args=BARLConfig(
            "outputs/agents",
            overwrite_output_dir=True,  # what an earlier run left there is deleted
            credit="belief_critic",
            max_steps=40,
            per_device_train_batch_size=128,  # 16 games with 8 rollouts
            max_completion_length=64,  # of all turns, with what the tool returned
            max_tool_calling_iterations=4,  # four questions
            learning_rate=6e-4,
            use_cpu=True,
            bf16=False,
            log_beliefs=True,  # for barl inspect
        ),
        train_dataset=Dataset.from_list(number_rows(640, seed=0)),
        environment_factory=NumberGame,
    )
    trainer.train()
    first, *_, last = (log for log in trainer.state.log_history if "reward" in log)
    for name in ("reward", "barl/turns_per_rollout", "barl/observation_gain"):
        print(f"{name}: {first[name]:.2f} in the first ten steps, {last[name]:.2f} in the last ten")
