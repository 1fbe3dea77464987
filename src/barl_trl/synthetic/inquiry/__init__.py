"""Games of finding out: a secret of a known list, questions whose replies depend on it, an answer.

[`Inquiry`] holds what is known of a game: its hypotheses, questions and replies. The environments
play it in TRL's loop of tools and say what each reply means for the belief; the reference policies
say how well it can be played.
"""

from .environments import (
    GAMES,
    AnimalGame,
    CodeGame,
    InquiryEnvironment,
    NumberGame,
    WordGame,
    found_secret,
    inquiry_model_dir,
    question_cost,
)
from .inquiries import animals, code, number, words
from .inquiry import Inquiry
from .references import greedy_question, optimal_number_accuracy, random_question, reference_play

__all__ = [
    "GAMES",
    "AnimalGame",
    "CodeGame",
    "Inquiry",
    "InquiryEnvironment",
    "NumberGame",
    "WordGame",
    "animals",
    "code",
    "found_secret",
    "greedy_question",
    "inquiry_model_dir",
    "number",
    "optimal_number_accuracy",
    "question_cost",
    "random_question",
    "reference_play",
    "words",
]
