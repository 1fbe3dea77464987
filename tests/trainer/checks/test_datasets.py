"""Data sets that are refused before a model is loaded: `model="nowhere"` would fail otherwise."""

import copy

import pytest
from datasets import Dataset, IterableDataset

from barl_trl import BARLTrainer
from barl_trl.rewards import accuracy_reward

from ..rollouts import config

ROWS = {"prompt": ["1+1?", "2+2?"], "solution": ["2", "4"]}


def message(role, content):
    return [{"role": role, "content": content}]


def refused(tmp_path, error=ValueError, reward_funcs=accuracy_reward, settings=None, **kwargs):
    """The text with which a trainer refuses its arguments."""
    rows = {"train_dataset": Dataset.from_dict(ROWS)} | kwargs
    with pytest.raises(error) as refusal:
        BARLTrainer("nowhere", reward_funcs, config(tmp_path, **settings or {}), **rows)
    assert refusal.value.__cause__ is None
    assert refusal.value.__suppress_context__ or refusal.value.__context__ is None
    return str(refusal.value)


def test_a_problem_column_is_to_be_named_prompt(tmp_path):
    for name in ("problem", "question", "Prompt"):
        rows = Dataset.from_dict({name: ["1+1?"], "solution": ["2"]})
        text = refused(tmp_path, train_dataset=rows)
        assert text.startswith("train_dataset must have the column 'prompt', got ")
        assert f"rename_column({name!r}, 'prompt')" in text and "load_problems" in text


@pytest.mark.parametrize(
    "prompts",
    [
        ["1+1?", None],
        ["1+1?", ""],
        [message("user", "1+1?"), []],
        [message("user", "1+1?"), None],
        [message("user", "1+1?"), message("user", None)],
    ],
    ids=["null", "empty", "no message", "no messages", "message without content"],
)
@pytest.mark.parametrize("is_selected", [False, True])
def test_every_row_has_a_prompt(tmp_path, prompts, is_selected):
    rows = Dataset.from_dict({"prompt": prompts * 2, "solution": ["2"] * 4})
    if is_selected:
        rows = rows.select([0, 3, 2])
    text = refused(tmp_path, train_dataset=rows)
    assert text.startswith("train_dataset must have a prompt in every row, got none in row 1")


@pytest.mark.parametrize("prompt", [7, {"text": "1+1?"}, ["1+1?"]])
def test_a_prompt_is_a_text_or_messages(tmp_path, prompt):
    rows = Dataset.from_dict({"prompt": [prompt], "solution": ["2"]})
    text = refused(tmp_path, train_dataset=rows)
    assert "must have texts or lists of messages as prompts, got" in text


def test_a_stream_is_looked_at_in_its_first_row(tmp_path):
    def stream():
        yield {"prompt": None, "solution": "2"}

    text = refused(tmp_path, train_dataset=IterableDataset.from_generator(stream))
    assert "got none in row 0" in text
    empty = IterableDataset.from_generator(lambda: iter(()))
    assert "train_dataset must have rows, got none" in refused(tmp_path, train_dataset=empty)


def test_what_is_evaluated_needs_the_same_columns(tmp_path):
    rows = Dataset.from_dict({"prompt": ["1+1?"], "answer": ["2"]})
    for eval_dataset, name in [(rows, "eval_dataset"), ({"gsm8k": rows}, "eval_dataset['gsm8k']")]:
        text = refused(tmp_path, eval_dataset=eval_dataset)
        assert text.startswith(f"{name} must have the column 'solution' for accuracy_reward, got")
    rows = Dataset.from_dict({"prompt": ["1+1?", None], "solution": ["2", "2"]})
    assert refused(tmp_path, eval_dataset=rows).startswith("eval_dataset must have a prompt")
    assert "eval_dataset must have rows" in refused(tmp_path, eval_dataset=rows.select([]))
    text = refused(tmp_path, eval_dataset="gsm8k", error=TypeError)
    assert text.startswith("eval_dataset must be a datasets.Dataset")


@pytest.mark.parametrize("num_rows", [0, 1])
def test_rows_fill_a_rollout_batch(tmp_path, num_rows):
    rows = Dataset.from_dict(ROWS).select(range(num_rows))
    text = refused(tmp_path, train_dataset=rows)
    if num_rows:
        assert "must have at least 2 rows, the prompts of a rollout batch, got 1" in text
        assert "generation_batch_size" in text
    else:
        assert text == "train_dataset must have rows, got none: give it some."


def test_most_true_answers_can_be_used(tmp_path):
    solutions = ["", r"\frac{1", None, "4"]
    rows = Dataset.from_dict({"prompt": ["1+1?"] * 4, "solution": solutions})
    text = refused(tmp_path, train_dataset=rows)
    assert "3 of the first 4 rows have none" in text and "barl data check" in text


def test_the_grader_reads_most_true_answers(tmp_path):
    rows = Dataset.from_dict(
        {"prompt": ["1+1?"] * 4, "solution": [r"\foo{x}_{;}^", "a))!", "}{", "4"]}
    )
    unread = [r"x \mapsto ;= 2 \\ & y", r"\begin{foo} 3 + & 4", "2", r"=<>= 3 ; ; 4"]
    rows = Dataset.from_dict({"prompt": ["1+1?"] * 4, "solution": unread})
    text = refused(tmp_path, train_dataset=rows)
    assert "must hold true answers that math_verify reads, got 3 of 4" in text


def test_a_reward_function_takes_what_it_is_given(tmp_path):
    def own_columns(completions, answer, **kwargs):
        return [0.0 for _ in completions]

    def no_more(completions):
        return [0.0 for _ in completions]

    text = refused(tmp_path, reward_funcs=own_columns)
    assert text.startswith("reward_funcs must take the columns of train_dataset, got own_columns")
    assert "missing a required argument: 'answer'" in text
    text = refused(tmp_path, reward_funcs=[accuracy_reward, no_more])
    assert "no_more" in text and "unexpected keyword argument" in text and "**kwargs" in text


@pytest.mark.parametrize(
    "column", ["prompts", "completions", "completion_ids", "trainer_state", "environments"]
)
def test_no_column_has_the_name_of_what_rewards_are_given(tmp_path, column):
    text = refused(tmp_path, train_dataset=Dataset.from_dict(ROWS | {column: ["x", "x"]}))
    assert text.startswith(f"train_dataset must have no column {column!r}, got ['prompt', ")


def test_a_tokenizer_without_eos_ends_no_completion(tmp_path, tokenizer):
    tokenizer = copy.deepcopy(tokenizer)
    tokenizer.eos_token = None
    text = refused(tmp_path, processing_class=tokenizer)
    assert text.startswith("processing_class must have an EOS token, got none in that of ")


def test_messages_need_a_chat_template(tmp_path, tokenizer):
    tokenizer = copy.deepcopy(tokenizer)
    tokenizer.chat_template = None
    rows = Dataset.from_dict({"prompt": [message("user", "1+1?")] * 2, "solution": ["2", "2"]})
    text = refused(tmp_path, train_dataset=rows, processing_class=tokenizer)
    assert text.startswith("processing_class must have a chat template for messages, got none")
