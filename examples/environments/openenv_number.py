"""OpenEnv on loopback: its client's tool, a reward for every turn, and the exact belief.

Needs `pip install openenv`.
"""

import threading
import time

import uvicorn
from datasets import Dataset
from openenv.core import Action, Environment, GenericEnvClient, Observation, State, create_app

from barl_trl import BARLConfig, BARLTrainer
from barl_trl.rewards import accuracy_reward
from barl_trl.synthetic.number import NUMBER_MODEL_DIR, NumberGame, number_rows
