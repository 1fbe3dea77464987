"""OpenEnv on loopback: a tool, rewards of turns, an exact belief. Install: pip install openenv."""

import threading

import uvicorn
from openenv.core import Action, Environment, GenericEnvClient, Observation, State, create_app
from training import train

from barl_trl.rewards import accuracy_reward
from barl_trl.synthetic.number import NumberGame


class Ask(Action):
    """What the client sends."""

    number: int


class Reply(Observation):
    """What it gets."""

    text: str = ""


class Server(Environment):
    """Knows the secret."""

    SUPPORTS_CONCURRENT_SESSIONS, state = True, State()

    def reset(self, seed=None, episode_id=None):
        self.secret = seed
        return Reply()

    def step(self, action):
        return Reply(text="yes" if self.secret >= action.number else "no", reward=-0.01)


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
    app = create_app(Server, Ask, Reply, max_concurrent_envs=64)
    server = uvicorn.Server(uvicorn.Config(app, port=8799, log_level="error"))
    threading.Thread(target=server.run, daemon=True).start()
    while not server.started:
        pass
    settings = {"credit": "bayes", "belief": "task", "hypotheses_column": "candidates"}
    train(settings=settings, environment_factory=Client, reward_funcs=accuracy_reward)
