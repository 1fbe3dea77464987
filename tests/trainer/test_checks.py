"""What `BARLTrainer` refuses before it loads a model: `model="./nowhere"` would fail otherwise."""

import numpy as np
import pytest
import torch
from datasets import Dataset, IterableDataset
from peft import PrefixTuningConfig, get_peft_model
from trl import GRPOConfig

from barl_trl import BARLTrainer
from barl_trl.rewards import accuracy_reward, cost, format_reward
from barl_trl.trainer.checks import answer_equivalence_of, answer_extractor_of

from ..tiny import tiny_tokenizer
from .rollouts import config, trainer

pytestmark = pytest.mark.filterwarnings("ignore:.*only the prior tells")
ROW = {"prompt": "Which?", "solution": "2", "numbers": ["1", "2"], "prior": [1.0, 3.0]}
TASK = {"belief": "task", "credit": "bayes", "hypotheses_column": "numbers"}


def message(content):
    return [{"role": "user", "content": content}]


def rows(**changed):
    """Two rows, in which a column is replaced; None removes it."""
    row = {name: value for name, value in (ROW | changed).items() if value is not None}
    return Dataset.from_list([row] * 2)


def prompts(*values):
    return Dataset.from_dict({"prompt": values, "solution": ["2"] * len(values)})


def stream(*values):
    return IterableDataset.from_generator(lambda: iter(values))


def lacking(name):
    tokenizer = tiny_tokenizer()
    setattr(tokenizer, name, None)
    return tokenizer


def made(tmp_path, fields=None, **given):
    arguments = {"reward_funcs": accuracy_reward, "train_dataset": rows()} | given
    return BARLTrainer("./nowhere", args=config(tmp_path, **fields or {}), **arguments)


def own_column(completions, answer, **kwargs):
    return [0.0 for _ in completions]


def no_more(completions):
    return [0.0 for _ in completions]


def likelihood(steps, hypotheses, **columns):
    return [[[0.0] * len(h) for _ in s] for s, h in zip(steps, hypotheses, strict=True)]


def needs_more(steps, hypotheses, secret):
    return []


@cost
def price(completions, **columns):
    return [-1.0] * len(completions)


class Game:
    def reset(self, **row):
        return None

    def get_reward(self) -> float:
        return 1.0


GAME = {
    "train_dataset": rows(prompt=message("Which?")),
    "environment_factory": Game,
    "observation_likelihood": likelihood,
}
STATED = {"extraction": "stated"}
PREFIX = PrefixTuningConfig(task_type="CAUSAL_LM", num_virtual_tokens=2)
TWO_REWARDS = {"reward_funcs": [accuracy_reward, format_reward]}

CHATS = prompts(*[message("1+1?")] * 2)
DATA = [
    *[rows().select([]), rows().select([0]), rows(prompt=None, problem="1+1?"), rows(image="x")],
    *[rows(solution=text) for text in (None, "", r"\frac{1", r"x \mapsto ;= 2 \\ & y")],
    *[rows(**{name: "x"}) for name in ("completions", "environments", "rollout_answer")],
    *[prompts("1+1?", "2+2?", *ill) for ill in ([None], ["", "3+3?"])],
    *[prompts(message("1+1?"), ill) for ill in ([], None, message(None))],
    *[stream({"prompt": None, "solution": "2"}), stream()],
]
MISTAKES = [
    *[({}, {"train_dataset": dataset}) for dataset in DATA],
    *[({}, {"eval_dataset": rows(solution=None)}), ({}, {"eval_dataset": rows().select([])})],
    ({}, {"eval_dataset": {"gsm8k": rows(solution=None)}}),
    ({}, {"processing_class": lacking("eos_token")}),
    ({}, {"processing_class": lacking("chat_template"), "train_dataset": CHATS}),
    # rewards
    *[({}, {"reward_funcs": one}) for one in (own_column, [accuracy_reward, no_more])],
    *[({}, {"reward_funcs": one}) for one in (("format_reward", format_reward), "math_verfy")],
    # settings that contradict arguments
    *[(STATED, {"answer_extractor": str.strip}), (STATED, {"reward_funcs": "qwen"})],
    *[({}, {"step_segmenter": lambda ids: ["a"]}), ({}, {"peft_config": PREFIX})],
    # what the task says
    (TASK | {"belief": "model"}, {"observation_likelihood": likelihood}),
    *[(TASK | {"hypotheses_column": name}, {}) for name in ("candidates", "solution")],
    *[(TASK | {"prior_column": name}, {}) for name in ("weight", "solution")],
    (TASK | {"credit": "rloo"}, {"outcome_under": lambda a, b: 1.0}),
    *[(TASK, {name: needs_more}) for name in ("observation_likelihood", "hypothesis_rewards")],
    (TASK | {"credit": "progress", "belief": "model"}, {"hypothesis_rewards": likelihood}),
    *[(TASK, TWO_REWARDS), (TASK | {"credit": "belief_critic"}, TWO_REWARDS), (TASK, GAME)],
]


@pytest.mark.parametrize("number", range(len(MISTAKES)))
def test_a_mistake_is_refused_without_a_chain_of_errors(tmp_path, number):
    fields, given = MISTAKES[number]
    with pytest.raises(ValueError, match=" must ") as refusal:
        made(tmp_path, fields, **given)
    assert "nowhere" not in str(refusal.value)
    assert refusal.value.__suppress_context__ or refusal.value.__context__ is None


@pytest.mark.parametrize(
    ("fields", "given"),
    [
        ({}, {"train_dataset": stream(ROW, ROW)}),
        (TASK, {"train_dataset": rows(solution=None), "reward_funcs": format_reward}),
        (TASK, GAME | {"reward_funcs": [price]}),
    ],
    ids=["stream", "no truths", "cost"],
)
def test_what_is_right_fails_for_its_model_alone(tmp_path, fields, given):
    with pytest.raises(OSError, match="nowhere"):
        made(tmp_path, fields, **given)


def test_settings_that_contradict_a_given_model_or_were_set_later(tmp_path, model, tokenizer):
    with pytest.raises(ValueError, match="gradient_checkpointing"):
        trainer(get_peft_model(model, PREFIX), tokenizer, config(tmp_path))
    args = GRPOConfig(str(tmp_path), use_cpu=True, bf16=False)
    with pytest.raises(TypeError, match="BARLConfig"):
        BARLTrainer("./nowhere", accuracy_reward, args, rows())
    args = config(tmp_path, credit="gae", credit_options={"gae_lambda": 0.5})
    args.credit = "barl"
    with pytest.raises(ValueError, match="credit_options"):
        BARLTrainer("./nowhere", accuracy_reward, args, rows())


@pytest.mark.parametrize("is_corrected", [True, False])
def test_settings_that_are_warned_of(tmp_path, recwarn, is_corrected):
    fields = {"use_vllm": True, "top_p": 0.9, "step_size": 64 if is_corrected else 8}
    fields |= {"vllm_importance_sampling_correction": is_corrected}
    with pytest.raises(ValueError, match="no column"):
        made(tmp_path, fields, train_dataset=rows(completions="x"))
    said = [str(one.message) for one in recwarn]
    for about in ("one weight", "importance ratio"):
        assert any(about in text for text in said) == is_corrected


# A user's functions


def test_functions_that_return_no_answer_or_no_verdict():
    for extractor in (len, lambda text: [text], lambda: "4", "qwne"):
        with pytest.raises((TypeError, ValueError)):
            answer_extractor_of(extractor)
    for verdict in ([True, True], None, 0.93):
        with pytest.raises(TypeError):
            answer_equivalence_of(lambda a, b, verdict=verdict: verdict)


def test_functions_are_checked_on_each_call_and_graders_taken_by_their_names():
    extract = answer_extractor_of(lambda text: 7 if "seven" in text else None)
    assert extract("4") is None
    with pytest.raises(TypeError):
        extract("seven")
    for one in (True, np.True_, torch.tensor(True)):
        assert answer_equivalence_of(lambda a, b, one=one: one)("4", "5")
    assert answer_extractor_of("math_verify")(r"\boxed{\frac12}") == r"\frac12"
    assert answer_equivalence_of("math_verify")("0.5", r"\frac12")
