from .barl_config import BARLConfig as BARLConfig
from .barl_trainer import BARLTrainer as BARLTrainer
from .methods import make_trainer as make_trainer
