"""What `BARLTrainer` refuses before it loads a model: `model="./nowhere"` would fail otherwise."""

import copy
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from datasets import Dataset, IterableDataset
from peft import PrefixTuningConfig, get_peft_model
from trl import GRPOConfig

from barl_trl import BARLTrainer
from barl_trl.rewards import accuracy_reward, cost, format_reward
from barl_trl.trainer.checks import answer_equivalence_of, answer_extractor_of

from .rollouts import config, trainer

TASK = {"belief": "task", "credit": "bayes", "hypotheses_column": "numbers"}
ROW = {"prompt": "Which?", "solution": "2", "numbers": ["1", "2"], "prior": [1.0, 3.0]}


def message(role, content):
    return [{"role": role, "content": content}]


def rows(**changed):
    """Two rows, in which a column is replaced; None removes it."""
    row = {name: value for name, value in (ROW | changed).items() if value is not None}
    return Dataset.from_list([row] * 2)


def refused(tmp_path, text, *, error=ValueError, fields=None, **given):
    """Make a trainer that must refuse its arguments with this text, without a chain of errors."""
    arguments = {"reward_funcs": accuracy_reward, "train_dataset": rows()} | given
    with pytest.raises(error, match=text) as refusal:
        BARLTrainer("./nowhere", args=config(tmp_path, **fields or {}), **arguments)
    assert refusal.value.__suppress_context__ or refusal.value.__context__ is None


def loads(tmp_path, **given):
    """Make a trainer whose arguments are right, so that only its model is missing."""
    refused(tmp_path, "nowhere", error=OSError, **given)


# Data


@pytest.mark.parametrize(
    ("dataset", "text"),
    [
        (rows().select([]), "train_dataset must have rows"),
        (rows(prompt=None, problem="1+1?"), "train_dataset must have the column 'prompt'"),
        (rows(image="x"), "train_dataset must be text-only"),
        (rows(solution=None), "solution_column must name a column of train_dataset"),
        (rows(solution=""), "solution_column must hold true answers"),
        (rows(solution=r"\frac{1"), "solution_column must hold true answers"),
        (rows(solution=r"x \mapsto ;= 2 \\ & y"), "solution_column must hold what math_verify"),
        (rows(completions="x"), "must have no column {'completions'"),
        (rows(environments="x"), "must have no column {'environments'"),
        (rows(rollout_answer="x"), "must have no column {'rollout_answer'"),
        (rows().select([0]), "train_dataset must have the 2 rows of a rollout batch, got 1"),
    ],
)
def test_data_that_cannot_be_trained_on(tmp_path, dataset, text):
    refused(tmp_path, text, train_dataset=dataset)


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
def test_every_row_has_a_prompt(tmp_path, prompts):
    dataset = Dataset.from_dict({"prompt": prompts * 2, "solution": ["2"] * 4})
    refused(tmp_path, "a prompt in every row, got none in row 1", train_dataset=dataset)
    dataset = dataset.select([0, 2, 1])
    refused(tmp_path, "a prompt in every row, got none in row 2", train_dataset=dataset)


def test_a_stream_is_looked_at_in_its_first_row(tmp_path):
    stream = IterableDataset.from_generator(lambda: iter([{"prompt": None, "solution": "2"}]))
    refused(tmp_path, "got none in row 0", train_dataset=stream)
    empty = IterableDataset.from_generator(lambda: iter(()))
    refused(tmp_path, "train_dataset must have rows", train_dataset=empty)
    loads(tmp_path, train_dataset=IterableDataset.from_generator(lambda: iter([ROW] * 2)))


def test_what_is_evaluated_needs_prompts_and_the_rewards_columns(tmp_path):
    without = rows(solution=None)
    for eval_dataset in (without, {"gsm8k": without}):
        text = "reward_funcs must take .*: missing a required argument: 'solution'"
        refused(tmp_path, text, eval_dataset=eval_dataset)
    refused(tmp_path, "eval_dataset must have rows", eval_dataset=without.select([]))


@pytest.mark.filterwarnings("ignore:.*only the prior tells")
def test_a_credit_that_needs_no_truth_takes_data_without(tmp_path):
    given = {"train_dataset": rows(solution=None), "reward_funcs": format_reward}
    loads(tmp_path, fields=TASK, **given)


def test_tokenizers_that_end_no_completion_or_write_no_messages(tmp_path, tokenizer):
    endless, plain = copy.deepcopy(tokenizer), copy.deepcopy(tokenizer)
    endless.eos_token = plain.chat_template = None
    refused(tmp_path, "processing_class must have an EOS token", processing_class=endless)
    chats = {"train_dataset": rows(prompt=message("user", "1+1?"))}
    refused(tmp_path, "must have a chat_template", processing_class=plain, **chats)


# Rewards and settings


def own_columns(completions, answer, **kwargs):
    return [0.0 for _ in completions]


def no_more(completions):
    return [0.0 for _ in completions]


@pytest.mark.parametrize(
    ("reward_funcs", "text"),
    [
        (own_columns, "reward_funcs must take .* got own_columns: missing .* 'answer'"),
        ([accuracy_reward, no_more], "got no_more: got an unexpected keyword argument"),
        (
            ("format_reward", partial(format_reward)),
            r"names of their own, got \['format_reward', 'f",
        ),
        ("math_verfy", "got 'math_verfy': did you mean .*math_verify"),
    ],
)
def test_rewards_that_cannot_be_called_or_told_apart(tmp_path, reward_funcs, text):
    refused(tmp_path, text, reward_funcs=reward_funcs)


def test_settings_that_contradict_arguments(tmp_path, model, tokenizer):
    stated = {"extraction": "stated"}
    refused(tmp_path, "extraction must be left at", fields=stated, answer_extractor=str.strip)
    refused(tmp_path, "extraction must be", fields=stated, reward_funcs="qwen")
    refused(tmp_path, "step_segmenter must return", step_segmenter=lambda ids: ["a"])
    prefix = PrefixTuningConfig(task_type="CAUSAL_LM", num_virtual_tokens=2)
    refused(tmp_path, "gradient_checkpointing must be False", peft_config=prefix)
    with pytest.raises(ValueError, match="gradient_checkpointing must be False"):
        trainer(get_peft_model(model, prefix), tokenizer, config(tmp_path))
    args = GRPOConfig(str(tmp_path), use_cpu=True, bf16=False)
    with pytest.raises(TypeError, match="args must be a BARLConfig"):
        BARLTrainer("./nowhere", accuracy_reward, args, rows())


def test_a_credit_that_was_set_since_has_its_own_options(tmp_path):
    args = config(tmp_path, credit="gae", credit_options={"gae_lambda": 0.5})
    args.credit = "barl"
    with pytest.raises(ValueError, match="credit_options must hold what credit='barl' takes"):
        BARLTrainer("./nowhere", accuracy_reward, args, rows())


def test_a_path_is_a_model_and_a_tuple_holds_rewards(tmp_path, model_path):
    rewards = (accuracy_reward, "format_reward")
    made = BARLTrainer(Path(model_path), rewards, config(tmp_path), rows())
    assert made.reward_func_names == ["accuracy_reward", "format_reward"]


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"step_size": 64}, "all tokens of a completion have one weight"),
        *[
            ({"use_vllm": True, **one}, "the importance ratio is biased")
            for one in ({"top_p": 0.9}, {"top_k": 20}, {"min_p": 0.1}, {"repetition_penalty": 1.1})
        ],
    ],
)
def test_settings_that_are_warned_of(tmp_path, fields, text):
    with pytest.warns(UserWarning, match=text):
        refused(tmp_path, "no column", fields=fields, train_dataset=rows(completions="x"))


@pytest.mark.filterwarnings("error:.*(importance ratio|one weight)")
@pytest.mark.parametrize(
    "fields",
    [
        {"use_vllm": True, "temperature": 0.6, "top_k": -1, "min_p": 0.0},
        {"use_vllm": True, "top_p": 0.9, "vllm_importance_sampling_correction": False},
        {"top_p": 0.9},
        {"step_size": 64, "credit": "grpo"},
    ],
)
def test_settings_that_are_not(tmp_path, fields):
    refused(tmp_path, "no column", fields=fields, train_dataset=rows(completions="x"))


# What the task says


def likelihood(steps, hypotheses, **columns):
    return [[[0.0] * len(h) for _ in s] for s, h in zip(steps, hypotheses, strict=True)]


def needs_more(steps, hypotheses, secret):
    return []


@pytest.mark.parametrize(
    ("fields", "given", "text"),
    [
        ({"belief": "model"}, {"observation_likelihood": likelihood}, "belief must be 'task'"),
        ({"hypotheses_column": "candidates"}, {}, "hypotheses_column must name .*'candidates'"),
        ({"hypotheses_column": "solution"}, {}, "hypotheses_column must hold lists of texts"),
        ({"prior_column": "weight"}, {}, "prior_column must name a column"),
        ({"prior_column": "solution"}, {}, "prior_column must hold a weight"),
        ({"credit": "rloo"}, {"outcome_under": lambda a, b: 1.0}, "outcome_under must be None"),
        ({}, {"observation_likelihood": needs_more}, "observation_likelihood must take"),
        ({}, {"hypothesis_rewards": needs_more}, "hypothesis_rewards must take"),
        (
            {"credit": "progress", "belief": "model"},
            {"hypothesis_rewards": likelihood},
            "hypothesis_rewards must be None",
        ),
        ({}, {"reward_funcs": [accuracy_reward, format_reward]}, "one that is no cost"),
        (
            {"credit": "belief_critic"},
            {"reward_funcs": [accuracy_reward, format_reward]},
            "one that is no cost",
        ),
    ],
)
@pytest.mark.filterwarnings("ignore:.*only the prior tells")
def test_mistakes_in_what_the_task_says(tmp_path, fields, given, text):
    refused(tmp_path, text, fields=TASK | fields, **given)


def test_a_cost_is_marked_and_an_environments_reward_counts_as_one(tmp_path):
    class Game:
        def reset(self, **row):
            return None

        def get_reward(self) -> float:
            return 1.0

    @cost
    def price(completions, **columns):
        return [-1.0] * len(completions)

    given = {
        "train_dataset": rows(prompt=message("user", "Which?")),
        "environment_factory": Game,
        "observation_likelihood": likelihood,
    }
    refused(tmp_path, r"got \['accuracy_reward', 'Game'\]", fields=TASK, **given)
    loads(tmp_path, fields=TASK, **given | {"reward_funcs": [price]})


# A user's functions


@pytest.mark.parametrize("extractor", [len, lambda text: [text], lambda: "4", "qwne"])
def test_extractors_that_return_no_answer(extractor):
    with pytest.raises((TypeError, ValueError)):
        answer_extractor_of(extractor)


@pytest.mark.parametrize(
    "equivalence", [lambda a: True, lambda a, b: [True, True], lambda a, b: None, lambda a, b: 0.93]
)
def test_equivalences_that_return_no_verdict(equivalence):
    with pytest.raises(TypeError):
        answer_equivalence_of(equivalence)


def test_functions_are_checked_on_each_call_and_graders_taken_by_their_names():
    extract = answer_extractor_of(lambda text: 7 if "seven" in text else None)
    assert extract("4") is None
    with pytest.raises(TypeError, match="answer_extractor must return a text or None, got 7"):
        extract("seven")
    for one in (True, np.True_, torch.tensor(True)):
        assert answer_equivalence_of(lambda a, b, one=one: one)("4", "5")
    assert answer_extractor_of("math_verify")(r"\boxed{\frac12}") == r"\frac12"
    assert answer_equivalence_of("math_verify")("0.5", r"\frac12")
    assert not answer_equivalence_of("string")("x+1", "1+x")
    assert answer_extractor_of(None) is answer_equivalence_of(None) is None
