"""OpenEnv on loopback: a tool, rewards of turns, an exact belief. Install: pip install openenv."""

from openenv.core import GenericEnvClient
from openenv_server import serve
from training import train

from barl_trl.rewards import accuracy_reward
from barl_trl.synthetic.number import NumberGame


class Client(NumberGame):
    """OpenEnv's client; the package's game knows what replies rule out."""

    def __init__(self):
        self.client = GenericEnvClient(base_url="http://127.0.0.1:8799").sync()
        self.client.connect()

    def reset(self, solution, **row):
        self.client.reset(seed=int(solution))
        self.turn_rewards = []

    def at_least(self, number: int) -> str:
        """Ask whether the secret is at least a number.

        Args:
            number: The number.
        """
        result = self.client.step({"number": number})
        self.turn_rewards.append(result.reward)
        return result.observation["text"]


if __name__ == "__main__":
    serve(8799)
    settings = {"credit": "bayes", "belief": "task", "hypotheses_column": "candidates"}
    train(settings=settings, environment_factory=Client, reward_funcs=accuracy_reward)
