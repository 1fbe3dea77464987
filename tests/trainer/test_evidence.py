"""Steps as a user's functions get them."""

from barl_trl.steps import Turn
from barl_trl.trainer.rollouts.evidence import Played, steps_of

from ..tiny import tiny_tokenizer

ASKS = {"role": "assistant", "tool_calls": [{"function": {"name": "look", "arguments": {}}}]}
SEES = {"role": "tool", "name": "look", "content": "12"}
SAYS = {"role": "assistant", "content": "12"}


def test_a_turn_is_its_messages_and_has_the_results_that_the_model_saw():
    turns = [Turn(0, 4, 8, True), Turn(8, 12, 12, False)]
    found = steps_of([ASKS, SEES, SEES, SAYS], range(12), [8, 12], turns, None)
    assert found == [[ASKS, SEES, SEES], [SAYS]]
    cut_off = [Turn(0, 4, 8, True), Turn(8, 12, 12, False)]
    found = steps_of([ASKS, SEES, ASKS, SEES], range(12), [8, 12], cut_off, None)
    assert found == [[ASKS, SEES], [ASKS]]  # the last result did not fit


def test_a_last_turn_without_words_has_no_step():
    turns = [Turn(0, 4, 8, True), Turn(8, 8, 9, False)]
    empty = {"role": "assistant", "content": ""}
    assert steps_of([ASKS, SEES, empty], range(9), [8], turns, None) == [[ASKS, SEES]]


def test_the_last_step_of_a_turn_has_its_calls_and_results():
    tokenizer = tiny_tokenizer()
    first, second = tokenizer.encode("Is it 1?"), tokenizer.encode(" Look.")
    end = len(first) + len(second)
    ids = [*first, *second, *tokenizer.encode("12"), *tokenizer.encode("No.")]
    turns = [Turn(0, end, end + 2, True), Turn(end + 2, len(ids), len(ids), False)]
    found = steps_of([ASKS, SEES, SAYS], ids, [len(first), end + 2, len(ids)], turns, tokenizer)
    words = [{"role": "assistant", "content": "Is it 1?"}]
    assert found == [words, [ASKS | {"content": " Look."}, SEES], [SAYS]]


def test_steps_of_a_text_are_texts():
    tokenizer = tiny_tokenizer()
    ids = [*tokenizer.encode("Is it 1? no\n2."), tokenizer.eos_token_id]
    cut = len(tokenizer.encode("Is it 1? no\n"))
    assert steps_of("Is it 1? no\n2.", ids, [cut, len(ids)], (), tokenizer) == [
        "Is it 1? no\n",
        "2.",
    ]
    found = steps_of([SAYS], ids, [cut, len(ids)], (), tokenizer)
    assert found == ["Is it 1? no\n", "2."]


def test_steps_of_an_agents_only_turn_are_messages_too():
    tokenizer = tiny_tokenizer()
    ids = [*tokenizer.encode("Is it 1? no\n2."), tokenizer.eos_token_id]
    cut = len(tokenizer.encode("Is it 1? no\n"))
    turns = [Turn(0, len(ids), len(ids), False)]
    found = steps_of([SAYS], ids, [cut, len(ids)], turns, tokenizer)
    assert found == [[SAYS | {"content": text}] for text in ("Is it 1? no\n", "2.")]


def test_a_function_gets_the_columns_of_the_rollouts_that_it_is_asked_about():
    played = Played(["p", "q"], ["c", "d"], [[], ["s"]], {"hint": [1, 2]}, ["e", "f"])
    assert played.of([1], [["1"], ["2", "3"]]) == {
        "hypotheses": [["2", "3"]],
        "prompts": ["q"],
        "completions": ["d"],
        "steps": [["s"]],
        "hint": [2],
        "environments": ["f"],
    }
