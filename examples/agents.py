"""Train the shipped model of 0.2 M parameters to ask questions: two minutes on a CPU."""

from datasets import Dataset

from barl_trl import BARLConfig, BARLTrainer
from barl_trl.synthetic.number import NUMBER_MODEL_DIR, number_rows


class NumberGame:
    """A secret number from 1 to 16. Its other public methods are the model's tools."""

    def reset(self, solution: str, **row) -> None:
        """Begin a game: TRL passes the columns of the row."""
        self.secret = int(solution)
        self.answer: int | None = None  # BARLTrainer reads it; None is no answer

    def at_least(self, number: int) -> str:
        """Ask whether the secret is at least a number.

        Args:
            number: The number.

        Returns:
            yes or no.
        """
        return "yes" if self.secret >= number else "no"

    def submit(self, number: int) -> str:
        """Give the answer.

        Args:
            number: The answer.

        Returns:
            That it is noted.
        """
        self.answer = self.answer or number  # the first one counts
        return "noted"

    def get_reward(self) -> float:
        """Return the reward of the game, when it is over."""
        return float(self.answer == self.secret)


def main() -> None:
    trainer = BARLTrainer(
        model=str(NUMBER_MODEL_DIR),
        reward_funcs=[],  # the environment has the reward
        args=BARLConfig(
            "outputs/agents",
            overwrite_output_dir=True,  # what an earlier run left there is deleted
            credit="belief_critic",
            max_steps=60,
            per_device_train_batch_size=128,  # 16 games with 8 rollouts
            max_completion_length=96,  # of all turns, with what the tools returned
            max_tool_calling_iterations=5,  # four questions and the answer
            learning_rate=6e-4,
            logging_steps=10,  # of which each log has the means
            use_cpu=True,
            bf16=False,
            log_beliefs=True,  # for barl inspect
        ),
        train_dataset=Dataset.from_list(number_rows(960, seed=0)),
        environment_factory=NumberGame,
    )
    trainer.train()
    for name in ("reward", "barl/turns_per_rollout", "barl/observation_gain"):
        values = [log[name] for log in trainer.state.log_history if name in log]
        print(f"{name}: {values[0]:.2f} in the first ten steps, {values[-1]:.2f} in the last ten")


if __name__ == "__main__":
    main()
