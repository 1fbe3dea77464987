from .hypotheses import answers_equivalent as answers_equivalent
from .hypotheses import extract_answer as extract_answer
from .plausibility import Answer as Answer
from .plausibility import Rollout as Rollout
from .plausibility import answer_log_likelihoods as answer_log_likelihoods
from .posterior import discrepancy as discrepancy
from .posterior import posterior_weighted_values as posterior_weighted_values
from .posterior import progress_rewards as progress_rewards
from .posterior import q_values as q_values
from .trainer import BARLConfig as BARLConfig
from .trainer import BARLTrainer as BARLTrainer
from .trainer import ends_episode as ends_episode
from .trainer import text_rollouts as text_rollouts

__version__: str
