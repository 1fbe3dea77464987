from .config import BARLConfig as BARLConfig
from .trainer import BARLTrainer as BARLTrainer
