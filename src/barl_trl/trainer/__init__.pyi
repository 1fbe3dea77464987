from .barl_trainer import BARLTrainer as BARLTrainer
from .config import BARLConfig as BARLConfig
