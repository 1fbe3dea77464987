from .answer_logps import AnswerLogLikelihoods as AnswerLogLikelihoods
from .answer_logps import answer_log_likelihoods as answer_log_likelihoods
from .elicitation import Elicitation as Elicitation
from .queries import Answer as Answer
from .queries import Rollout as Rollout
