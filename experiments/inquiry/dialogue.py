"""An inquiry in words, for a pretrained model: each turn is a line, and so is each reply."""

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from trl.models import unwrap_model_for_generation

from .inquiry import Inquiry, animals, number

MOST_TOKENS = 20
"""Tokens of a turn at most."""


@dataclass(frozen=True)
class Dialogue:
    """How a game is put into words.

    Attributes:
        inquiry: The game.
        instruction: What the prompt says beside the question of the game.
        question: Form of a question, with `{}` for the inquiry's.
        answer: Form of an answer, with `{}` for the hypothesis.
        most_questions: Questions that are replied to.
    """

    inquiry: Inquiry
    instruction: str
    question: str
    answer: str
    most_questions: int

    @cached_property
    def questions(self) -> dict[str, str]:
        """Line that asks -> question of the inquiry."""
        return {self.question.format(text): text for text in self.inquiry.questions}

    @cached_property
    def answers(self) -> dict[str, str]:
        """Line that answers -> hypothesis."""
        return {self.answer.format(text): text for text in self.inquiry.hypotheses}

    def rows(self, count: int, *, seed: int) -> list[dict[str, Any]]:
        """Return rows of the inquiry with prompts that are texts, each once."""
        rows = {}
        for row in self.inquiry.rows(2 * count, seed=seed):
            prompt = f"{row['prompt'][0]['content']} {self.instruction}\n"
            rows.setdefault(prompt, row | {"prompt": prompt})
        return [*rows.values()][:count]

    def reply(self, line: str, secret: str) -> str | None:
        """Return the line that replies to a line; None if it is no question."""
        question = self.questions.get(line.strip())
        return None if question is None else self.inquiry.reply(question, secret) + "\n"

    def observation_likelihood(
        self,
        hypotheses: Sequence[Sequence[str]],
        steps: Sequence[Sequence[str]],
        **columns: Any,
    ) -> list[np.ndarray]:
        """Return what the reply in each step says: the trainer's `observation_likelihood`."""
        output = []
        for texts, of_rollout in zip(hypotheses, steps, strict=True):
            places = [self.inquiry.places[text] for text in texts]
            logs = np.zeros((len(of_rollout), len(texts)))
            for row, step in zip(logs, of_rollout, strict=True):
                line, _, reply = step.strip().partition("\n")
                question = self.questions.get(line.strip(), "")
                row += self.inquiry.log_likelihoods(question, reply.strip())[places]
            output.append(logs)
        return output

    def asker_text(self, rng: random.Random) -> tuple[str, list[tuple[str, bool]]]:
        """Return prompt and lines of a random asker, each with whether the asker wrote it."""
        (row,) = self.rows(1, seed=rng.randrange(2**31))
        lines, belief = [], np.ones(len(self.inquiry.hypotheses))
        for _ in range(rng.randint(0, self.most_questions)):
            question = rng.choice(self.inquiry.questions)
            reply = self.inquiry.reply(question, row["solution"], rng)
            lines += [(self.question.format(question) + "\n", True), (reply + "\n", False)]
            belief *= np.exp(self.inquiry.log_likelihoods(question, reply))
        answer = rng.choices(self.inquiry.hypotheses, belief.tolist())[0]
        return row["prompt"], [*lines, (self.answer.format(answer) + "\n", True)]


DIALOGUES = {
    "number": Dialogue(
        number(),
        "Ask up to four questions, then answer.",
        "Is it at least {}?",
        "It is {}.",
        4,
    ),
    "animals": Dialogue(
        animals(), "Ask up to eight questions, then answer.", "{}", "It is the {}.", 8
    ),
}
"""The games that are played in words."""


class Player:
    """A `rollout_func`: the model's lines, and the game's replies.

    Args:
        dialogue: The game in words.
        secrets: Prompt -> secret.
    """

    def __init__(self, dialogue: Dialogue, secrets: Mapping[str, str]):
        self.dialogue, self.secrets = dialogue, secrets

    def __call__(self, prompts: Sequence[str], trainer: Any) -> dict[str, Any]:
        """Play a game of each prompt with the trainer's model."""
        with unwrap_model_for_generation(trainer.model_wrapped, trainer.accelerator) as model:
            return self.play(model, trainer.processing_class, prompts)

    def play(self, model: Any, tokenizer: Any, prompts: Sequence[str]) -> dict[str, Any]:
        """Play a game of each prompt.

        Returns:
            Lists with an item for each game: what TRL wants of a `rollout_func`, the `answer`, and
            `num_questions`.
        """
        games = [_Game(tokenizer.encode(prompt), self.secrets[prompt]) for prompt in prompts]
        for turn in range(self.dialogue.most_questions + 1):
            going = [game for game in games if not game.is_over]
            for game, ids in zip(going, _lines(model, tokenizer, going), strict=True):
                game.say(ids, is_own=True)
                line = tokenizer.decode(ids, skip_special_tokens=True)
                game.answer = self.dialogue.answers.get(line.strip())
                reply = self.dialogue.reply(line, game.secret)
                game.is_over = reply is None or turn == self.dialogue.most_questions
                if not game.is_over:
                    game.num_questions += 1
                    game.say(tokenizer.encode(reply, add_special_tokens=False), is_own=False)
        return {
            "prompt_ids": [game.prompt_ids for game in games],
            "completion_ids": [game.ids for game in games],
            "env_mask": [game.own for game in games],
            "logprobs": None,
            "answer": [game.answer for game in games],
            "num_questions": [game.num_questions for game in games],
        }


class _Game:
    """A game that is played."""

    def __init__(self, prompt_ids: list[int], secret: str):
        self.prompt_ids, self.secret = prompt_ids, secret
        self.ids: list[int] = []
        self.own: list[int] = []
        self.answer: str | None = None
        self.num_questions, self.is_over = 0, False

    def say(self, ids: Sequence[int], *, is_own: bool) -> None:
        self.ids += ids
        self.own += [int(is_own)] * len(ids)


def end_ids(tokenizer: Any) -> list[int]:
    """Return the ids of the tokens that end a line."""
    newline = tokenizer.encode("\n", add_special_tokens=False)
    ends = (newline[-1], tokenizer.eos_token_id, tokenizer.pad_token_id)
    return [token for token in dict.fromkeys(ends) if token is not None]


@torch.no_grad()
def _lines(model: Any, tokenizer: Any, games: Sequence[_Game]) -> Iterator[list[int]]:
    """Yield the next line that the model writes in each game."""
    if not games:
        return
    contexts = [game.prompt_ids + game.ids for game in games]
    longest, ends = max(map(len, contexts)), end_ids(tokenizer)
    input_ids = torch.full((len(games), longest), ends[-1])
    mask = torch.zeros_like(input_ids)
    for row, context in enumerate(contexts):
        input_ids[row, longest - len(context) :] = torch.tensor(context)
        mask[row, longest - len(context) :] = 1
    output = model.generate(
        input_ids.to(model.device),
        attention_mask=mask.to(model.device),
        max_new_tokens=MOST_TOKENS,
        do_sample=True,
        temperature=1.0,
        top_k=0,
        top_p=1.0,
        eos_token_id=ends,
        pad_token_id=ends[-1],
    )
    for row in output[:, longest:].tolist():
        last = next((k for k, token in enumerate(row) if token in ends), len(row) - 1)
        yield row[: last + 1]


def found(rollout_answer: Sequence[Any], solution: Sequence[str], **columns: Any) -> list[float]:
    """Reward 1 for the secret as the answer, 0 for any other and for none."""
    return [
        float(given is not None and given.answer == secret)
        for given, secret in zip(rollout_answer, solution, strict=True)
    ]
