"""The server of `openenv_number.py`: a secret number behind OpenEnv's protocol."""

import threading

import uvicorn
from openenv.core import Action, Environment, Observation, State, create_app


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


def serve(port):
    """Serve the game on this machine, in a thread."""
    app = create_app(Server, Ask, Reply, max_concurrent_envs=64)
    server = uvicorn.Server(uvicorn.Config(app, port=port, log_level="error"))
    threading.Thread(target=server.run, daemon=True).start()
    while not server.started:
        pass
