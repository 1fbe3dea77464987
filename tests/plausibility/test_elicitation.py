"""Elicitation and answers as token ids, and thoughts that are closed first."""

import pytest
from tokenizers import Tokenizer, decoders, pre_tokenizers
from tokenizers.models import Unigram
from transformers import PreTrainedTokenizerFast

from barl_trl.plausibility.elicitation import DEFAULT_ELICITATION, Elicitation


@pytest.fixture
def elicitation(tokenizer):
    return Elicitation(tokenizer)


def states(elicitation, tokenizer, prompt, *steps, foreign=()):
    """Which states of a rollout have their thought closed before they are asked.

    Steps that are `foreign` are not the model's.
    """
    ids, mask, ends = [], [], []
    for step in steps:
        ids += tokenizer.encode(step)
        mask += [step not in foreign] * (len(ids) - len(mask))
        ends.append(len(ids))
    rollout = elicitation.rollout(tokenizer.encode(prompt), ids, ends, ["2"], mask=mask)
    asked = rollout.state_elicitations
    return asked and [state == elicitation.closing_token_ids for state in asked]


def test_an_open_thought_is_closed_before_the_elicitation(elicitation, tokenizer):
    closing = tokenizer.decode(elicitation.closing_token_ids)
    assert closing == "\n</think>\n" + DEFAULT_ELICITATION
    opened = [False, True, True, False]
    assert states(elicitation, tokenizer, "1+1?", "<think>One", " two", "</think> 2") == opened


def test_a_thought_that_the_prompt_opened_is_open(elicitation, tokenizer):
    prompt = "1+1?<|im_start|>assistant\n<think>\n"
    assert states(elicitation, tokenizer, prompt, "Two.", "</think>") == [True, True, False]


def test_a_prompt_that_speaks_of_the_tags_opens_nothing(elicitation, tokenizer):
    assert states(elicitation, tokenizer, "Reason inside <think> tags.", "Two.") is None


def test_text_that_is_not_the_models_opens_and_closes_nothing(elicitation, tokenizer):
    page = "it says <think> and"
    assert states(elicitation, tokenizer, "1+1?", "Look", page, "2", foreign=[page]) is None
    page = "it says </think> and"
    thought = states(elicitation, tokenizer, "1+1?", "<think>", page, "</think>", foreign=[page])
    assert thought == [False, True, True, False]


def test_the_lone_opening_brace_is_forced_and_the_rest_is_scored(elicitation, tokenizer):
    answer = elicitation.answer("72")
    assert tokenizer.decode(answer.token_ids) == "{72}."
    assert tokenizer.decode(answer.token_ids[answer.score_from :]) == "72}."


def test_the_start_of_a_word_before_the_brace_is_forced_with_it():
    """As SentencePiece's tokenizers do that have no token for both."""
    model = Unigram([("<unk>", 0.0), ("▁", -1.0), *((char, -1.0) for char in "{}.72")], 0)
    words = Tokenizer(model)
    words.pre_tokenizer, words.decoder = pre_tokenizers.Metaspace(), decoders.Metaspace()
    answer = Elicitation(PreTrainedTokenizerFast(tokenizer_object=words)).answer("72")
    assert words.decode(answer.token_ids) == "{72}."
    assert (len(answer.token_ids), answer.score_from) == (6, 2)


def test_a_token_that_joins_brace_and_answer_is_scored_whole(elicitation, tokenizer):
    tokenizer_with_join = type(tokenizer)(tokenizer_object=tokenizer._tokenizer)
    tokenizer_with_join.add_tokens(["{\\"])
    answer = Elicitation(tokenizer_with_join).answer("\\pi")
    assert tokenizer_with_join.decode(answer.token_ids[:1]) == "{\\"
    assert answer.score_from == 0


def test_at_the_start_of_a_turn_the_text_has_no_leading_line_break(elicitation, tokenizer):
    prompt, first, reply, last = ([5] * n for n in (3, 4, 2, 6))
    rollout = elicitation.rollout(
        prompt,
        [*first, *reply, *last],
        [6, 12],
        ["1"],
        mask=[1] * 4 + [0] * 2 + [1] * 6,
        turn_starts=[0, 6],
    )
    texts = [tokenizer.decode(rollout.elicitation(n, elicitation.token_ids)) for n in range(3)]
    bare = DEFAULT_ELICITATION.removeprefix("\n")
    assert texts == [bare, bare, DEFAULT_ELICITATION]


@pytest.mark.parametrize(
    ("first", "reply", "last", "opened"),
    [
        ("<think>a", "b", "c", [0, 0, 0]),  # a thought ends with its turn
        ("a", "<think>b", "c", [0, 0, 0]),  # what others say opens none
        ("a", "b<think>\n", "c", [0, 1, 1]),  # unless it is the template's last word
        ("a", "b<think>\n", "c</think>d", [0, 1, 0]),
        ("a", "b", "<think>c", [0, 0, 1]),
        ("<think>a", "b</think>", "c", [0, 0, 0]),
    ],
)
def test_a_thought_is_one_turns(tokenizer, first, reply, last, opened):
    elicitation = Elicitation(tokenizer)
    parts = [tokenizer.encode(text) for text in (first, reply, last)]
    starts = [len(parts[0]) + len(parts[1]), sum(map(len, parts))]
    rollout = elicitation.rollout(
        [5, 6],
        [token for part in parts for token in part],
        starts,
        ["1"],
        mask=[1] * len(parts[0]) + [0] * len(parts[1]) + [1] * len(parts[2]),
        turn_starts=[0, starts[0]],
    )
    texts = [tokenizer.decode(rollout.elicitation(n, elicitation.token_ids)) for n in range(3)]
    assert [text.lstrip().startswith("</think>") for text in texts] == [*map(bool, opened)]
