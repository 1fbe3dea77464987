from .boundary import ends_episode as ends_episode
from .config import BARLConfig as BARLConfig
from .text_rollouts import text_rollouts as text_rollouts
from .trainer import BARLTrainer as BARLTrainer
