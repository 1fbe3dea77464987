"""Inquiries in words: lines, replies and what they mean; a tiny model is trained on them."""

import json
import math
import random

import numpy as np
import pytest
import torch

from barl_trl import BARLTrainer
from experiments.inquiry import pretrained
from experiments.inquiry.dialogue import DIALOGUES, Player, end_ids

from ...tiny import tiny_model, tiny_tokenizer


class Said:
    """A model that says given lines, whatever it reads."""

    device = torch.device("cpu")

    def __init__(self, tokenizer, lines):
        self.tokenizer, self.lines = tokenizer, iter(lines)

    def generate(self, input_ids, max_new_tokens, **options):
        texts = next(self.lines)
        rows = [self.tokenizer.encode(text) for text in texts]
        longest = max(map(len, rows))
        pad = options["pad_token_id"]
        padded = torch.tensor([row + [pad] * (longest - len(row)) for row in rows])
        return torch.cat([input_ids, padded], dim=1)


def test_a_game_goes_on_while_the_model_asks():
    tokenizer, dialogue = tiny_tokenizer(), DIALOGUES["number"]
    (a, b), secrets = ("first\n", "second\n"), {"first\n": "9", "second\n": "3"}
    lines = [
        ["Is it at least 8?\n", "Is it at least 5?\n"],
        ["It is 9.\n", "What is it?\n"],  # the second is no question: the game is over
    ]
    played = Player(dialogue, secrets).play(Said(tokenizer, lines), tokenizer, [a, b])
    texts = [tokenizer.decode(ids) for ids in played["completion_ids"]]
    assert texts == ["Is it at least 8?\nyes\nIt is 9.\n", "Is it at least 5?\nno\nWhat is it?\n"]
    assert played["answer"] == ["9", None] and played["num_questions"] == [1, 1]
    for ids, own, reply in zip(
        played["completion_ids"], played["env_mask"], ("yes\n", "no\n"), strict=True
    ):
        others = [token for token, mine in zip(ids, own, strict=True) if not mine]
        assert tokenizer.decode(others) == reply


def test_only_so_many_questions_are_replied_to():
    tokenizer, dialogue = tiny_tokenizer(), DIALOGUES["number"]
    player = Player(dialogue, {"game\n": "9"})
    played = player.play(Said(tokenizer, [["Is it at least 9?\n"]] * 5), tokenizer, ["game\n"])
    assert played["num_questions"] == [4] and played["answer"] == [None]


def test_a_reply_rules_out_what_it_excludes():
    dialogue = DIALOGUES["number"]
    steps = ["Is it at least 14?\nyes\n", "Is it at least 99?\nno\n", "It is 15.\n"]
    (logs,) = dialogue.observation_likelihood([["15", "3", "16"]], [steps])
    assert logs.tolist() == [[0, -math.inf, 0], [0, 0, 0], [0, 0, 0]]


@pytest.mark.parametrize("name", DIALOGUES)
def test_the_random_asker_asks_in_words_and_answers_what_is_possible(name):
    dialogue, rng = DIALOGUES[name], random.Random(0)
    for _ in range(20):
        _, lines = dialogue.asker_text(rng)
        asked = [line.strip() for line, is_own in lines[:-1] if is_own]
        assert {*asked} <= {*dialogue.questions}
        steps = [a + b for (a, _), (b, _) in zip(lines[:-1:2], lines[1::2], strict=True)]
        (logs,) = dialogue.observation_likelihood([[*dialogue.inquiry.hypotheses]], [steps])
        answer = dialogue.answers[lines[-1][0].strip()]
        assert np.isfinite(logs.sum(axis=0)[dialogue.inquiry.places[answer]])


def test_prompts_are_each_once():
    rows = DIALOGUES["animals"].rows(300, seed=0)
    assert len({row["prompt"] for row in rows}) == 300


def test_a_tiny_model_goes_all_the_way(tmp_path, monkeypatch):
    """Every turn has a weight of its own, no reply has one, and the report is written."""
    monkeypatch.setattr(pretrained, "TESTS", 8)
    weighed = []

    class Watched(BARLTrainer):
        def _generate_and_score_completions(self, inputs):
            output = super()._generate_and_score_completions(inputs)
            weighed.append((self._batch.generated, output["advantages"]))
            return output

    monkeypatch.setattr(pretrained, "BARLTrainer", Watched)
    model = tmp_path / "model"
    tokenizer = tiny_tokenizer()
    tiny_model(tokenizer).save_pretrained(model)
    tokenizer.save_pretrained(model)
    warm = tmp_path / "number" / "warm" / "warm.json"
    warm.parent.mkdir(parents=True)
    pretrained.warm_up(warm, str(model), "number", 30)
    for arm in pretrained.COMPARED:
        pretrained.train_into(
            tmp_path / "number" / f"{arm}-0.json", warm.parent, "number", arm, 0, 2
        )
    generated, advantages = weighed[-1]
    for own, weights in zip(generated.masks, advantages, strict=True):
        assert not weights[: len(own)][~np.array(own, dtype=bool)].any()
    record = json.loads((tmp_path / "number" / "bayes-0.3-0.json").read_text())
    assert len(record["rewards"]) == 2 and record["before"]["accuracy"] <= 1
    assert "Bayes return, c = 0.3 is ahead by" in pretrained.report(tmp_path, 1)
    assert tokenizer.encode("a\n")[-1] == end_ids(tokenizer)[0]
