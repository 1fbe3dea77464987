"""`BARLConfig` and `BARLTrainer`: what is refused, one text per field, and how batches divide."""

import math
import re
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml
from datasets import Dataset, IterableDataset
from hypothesis import given
from hypothesis import strategies as st
from peft import PrefixTuningConfig, get_peft_model
from transformers import Qwen2ForCausalLM
from trl import GRPOConfig, TrlParser

from barl_trl import BARLConfig, BARLTrainer
from barl_trl.credit import Credit
from barl_trl.rewards import accuracy_reward, cost, format_reward
from barl_trl.trainer.checks import answer_equivalence_of, answer_extractor_of
from barl_trl.trainer.config import own_fields

from ..paths import ROOT
from ..tiny import tiny_model, tiny_tokenizer
from .rollouts import config, task_function, trainer

REFUSED = yaml.safe_load(Path(__file__).with_name("refused.yaml").read_text())
CPU = {"use_cpu": True, "bf16": False}


def of_needs(rollouts, *, step_size, learning_rate, beta=1.0, **more):
    """Stand for an estimator of a user's that needs what is no field."""


expecting = Credit("barl_trl.credit.bayes:bayes", replaces_outcome=True)


def make(**settings):
    return BARLConfig("out", **CPU, **settings)


@pytest.mark.parametrize(
    ("name", "value"), [(name, value) for name, values in REFUSED.items() for value in values]
)
def test_a_value_that_is_refused(name, value):
    with pytest.raises(ValueError, match=f"^{name} must "):
        BARLConfig(**CPU | {"output_dir": "out", name: value})


def test_the_folder_stays_where_it_was_named(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert make().output_dir == str(tmp_path / "out")


@pytest.mark.parametrize("credit", ["bayes", f"{__name__}.expecting"])
def test_a_certain_answer_is_no_belief_under_which_an_outcome_is_expected(credit):
    with pytest.raises(ValueError, match=r"^last_state must "):
        make(credit=credit, last_state="answer")
    assert make(credit=credit, last_state="answer", belief="task").scores_answers is False


@pytest.mark.parametrize(
    ("credit", "belief", "is_used", "is_used_with_rewards"),
    [
        *[("barl", "model", True, True), ("gae_posterior", "model", True, True)],
        *[("barl", "task", False, True), ("barl", "both", False, True)],
        *[("bayes", "model", False, True), (f"{__name__}.expecting", "model", False, True)],
        *[("rloo", "model", False, False), ("progress", "model", False, False)],
    ],
)
def test_a_consistency_that_no_belief_has_is_told(credit, belief, is_used, is_used_with_rewards):
    args = make(credit=credit, belief=belief, consistency_beta=2.0)
    for is_predicted, expected in ((False, is_used), (True, is_used_with_rewards)):
        unused = args.unused(args.hears_rewards(is_predicted)) or ""
        assert ("consistency_beta" not in unused) == expected


# The options of a credit


@pytest.mark.parametrize(
    ("credit", "options"),
    [
        *[("barl", one) for one in ({"gae_lambda": 0.9}, {"outcome_mode": "truth"})],
        *[("barl", one) for one in ("{gae_lambda: 1}", "outcome_mode")],
        ("barl", {"consistency_beta": 2.0}),  # it is a field
        *[("gae", {"gae_lambda": value}) for value in (1.5, "much", True)],
        ("belief_critic", {"bootstrap_cut_off": "false"}),
        *[("bayes", {"information_weight": value}) for value in (-1, math.inf)],
        (f"{__name__}.of_needs", {}),  # which has no default for one
    ],
)
def test_options_that_the_credit_does_not_take_are_refused(credit, options):
    with pytest.raises(ValueError, match=r"^credit_options must "):
        make(credit=credit, credit_options=options)


def test_the_credit_has_the_options_that_are_given_and_its_own_for_others():
    args = make(credit="belief_critic", credit_options={"gae_lambda": 0.9})
    assert args.settings["credit_options"] == {"gae_lambda": 0.9, "bootstrap_cut_off": True}
    assert args.settings["value_normalization"] == "batch"
    assert make(credit="gae").settings["credit_options"] == {"gae_lambda": 1.0}
    for belief, c in (("model", 0), ("both", 0), ("task", 1)):  # a model may be sure and wrong
        options = make(credit="bayes", belief=belief).settings["credit_options"]
        assert options == {"information_weight": c}
    own = make(credit=f"{__name__}.of_needs", credit_options={"learning_rate": 3}).settings
    assert own["credit_options"] == {"learning_rate": 3, "beta": 1.0}


# Parsers and files


def parse(*argv):
    [args] = TrlParser((BARLConfig,)).parse_args_and_config([*argv], fail_with_unknown_args=True)
    return args


def test_options_on_a_command_line_and_in_a_recipe_are_the_same(tmp_path):
    base = ["--output_dir", "out", "--use_cpu", "true", "--bf16", "false", "--credit", "gae"]
    given = parse(*base, "--credit_options", '{"gae_lambda": 0.9}')
    assert given.credit_options == {"gae_lambda": 0.9}
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text("credit_options:\n  gae_lambda: 0.9\nconsistency_beta: .inf\n")
    args = parse("--config", str(recipe), *base)
    assert (args.credit_options, args.consistency_beta) == ({"gae_lambda": 0.9}, math.inf)


def table_row(option):
    default = repr(option.default) if option.default != "" else "''"
    return f"| `{option.name}` | `{default}` | {option.metadata['help']} |"


def test_the_table_in_docs_is_the_fields_help():
    page = (ROOT / "docs" / "settings.md").read_text()
    rows = re.findall(r"^\| `\w+` \| `.*` \| .* \|$", page, re.MULTILINE)
    assert rows == [table_row(option) for option in own_fields()]


# Batches


@given(st.data())
def test_what_divides_is_what_trl_makes_of_it(data):
    """Whole steps of whole micro-batches of all processes, and TRL's own rule of whole groups."""
    generations, size = data.draw(st.integers(2, 8)), data.draw(st.integers(1, 8))
    prompts, step = (data.draw(st.none() | st.integers(1, 64)) for _ in range(2))
    processes = data.draw(st.integers(1, 3))
    at_once = size * processes
    rollouts = prompts * generations if prompts else step or at_once
    is_whole = (step is None or step % at_once == 0) and rollouts % (step or at_once) == 0
    settings = {"num_generations": generations, "per_device_train_batch_size": size}
    settings |= {"prompts_per_rollout_batch": prompts, "rollouts_per_optimizer_step": step}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(BARLConfig, "world_size", processes)
        if is_whole and rollouts % generations == 0:
            args = make(**settings)
            assert args.generation_batch_size == rollouts
            assert args.gradient_accumulation_steps == (step or at_once) // at_once
        else:
            with pytest.raises(ValueError, match=r"must be|divisible"):
                make(**settings)


@pytest.mark.parametrize(
    "name", ["generation_batch_size", "steps_per_generation", "gradient_accumulation_steps"]
)
def test_batches_are_said_in_one_way(name):
    batches = {"prompts_per_rollout_batch": 8, "rollouts_per_optimizer_step": 8}
    with pytest.raises(ValueError, match=f"^{name} must"):
        make(**batches, **{name: 8})


# What `BARLTrainer` refuses before it loads a model: "./nowhere" would fail otherwise

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


def built(tmp_path, fields=None, **given):
    arguments = {"reward_funcs": accuracy_reward, "train_dataset": rows()} | given
    return BARLTrainer("./nowhere", args=config(tmp_path, **fields or {}), **arguments)


def own_column(completions, answer, **kwargs):
    return [0.0 for _ in completions]


def no_more(completions):
    return [0.0 for _ in completions]


@task_function
def likelihood(step, texts):
    return [0.0] * len(texts)


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


async def later(self, **row):
    return None


def game(**methods):
    return type("Own", (Game,), methods)


GAME = {"train_dataset": rows(prompt=message("Which?")), "environment_factory": Game}
GAME |= {"observation_likelihood": likelihood}
STATED = {"extraction": "stated"}
PREFIX = PrefixTuningConfig(task_type="CAUSAL_LM", num_virtual_tokens=2)
TWO_REWARDS = {"reward_funcs": [accuracy_reward, format_reward]}

CHATS = prompts(*[message("1+1?")] * 2)
ENVIRONMENTS = [
    *[game(reset=later), game(reset=lambda self, solution: None), game(close=lambda self: None)],
    *[game(get_reward=lambda self, answer: 1.0), lambda: None, lambda: Game],
]
DATA = [
    *[rows().select([]), rows().select([0]), rows(prompt=None, problem="1+1?"), rows(image="x")],
    *[rows(solution=text) for text in (None, "", r"\frac{1", r"x \mapsto ;= 2 \\ & y")],
    *[rows(**{name: "x"}) for name in ("completions", "environments", "rollout_answer")],
    *[prompts("1+1?", "2+2?", *ill) for ill in ([None], ["", "3+3?"])],
    prompts(["1", "2"], ["3", "4"]),
    prompts(*[[*message("1+1?"), {"role": "assistant", "content": "2"}]] * 2),
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
    ({"credit": "turns"}, {"state_key": len}),
    *[(TASK, {name: needs_more}) for name in ("observation_likelihood", "hypothesis_rewards")],
    (TASK | {"credit": "progress", "belief": "model"}, {"hypothesis_rewards": likelihood}),
    *[(TASK, TWO_REWARDS), (TASK | {"credit": "belief_critic"}, TWO_REWARDS), (TASK, GAME)],
    # agents
    *[({}, {"train_dataset": CHATS, "environment_factory": one}) for one in ENVIRONMENTS],
    *[({}, {"train_dataset": CHATS, "tools": [one]}) for one in (no_more, lambda x: x)],
    ({}, {"train_dataset": None}),
]
OTHER_KINDS = [
    *[("model", one) for one in (None, Qwen2ForCausalLM, tiny_tokenizer(), torch.nn.Linear(1, 1))],
    *[("args", one) for one in ({"output_dir": "out"}, "out", BARLConfig, accuracy_reward)],
    *[("reward_funcs", one) for one in (1.0, {"a": price}, [None])],
    *[("train_dataset", one) for one in ([ROW], "rows.jsonl", rows().to_pandas())],
    *[("eval_dataset", "rows.jsonl"), ("processing_class", "Qwen/Qwen3-0.6B"), ("callbacks", len)],
    *[("tools", one) for one in (no_more, {"a": no_more}, ["no_more"], [Game])],
    *[("environment_factory", one) for one in (Game(), [Game], {"a": Game()}, "mine.Game")],
    *[("peft_config", one) for one in ({"r": 8}, "lora", PrefixTuningConfig)],
    *[("benchmarks", one) for one in (rows(), {"a": [ROW]}, "math500")],
    *[("answer_extractor", 4), ("answer_equivalence", [len]), ("step_segmenter", "mine.f")],
    *[("rollout_func", "mine.f"), ("outcome_under", {}), ("observation_likelihood", [likelihood])],
]


@pytest.mark.parametrize("number", range(len(MISTAKES)))
def test_a_mistake_is_refused_without_a_chain_of_errors(tmp_path, number):
    fields, given = MISTAKES[number]
    with pytest.raises(ValueError, match=" must ") as refusal:
        built(tmp_path, fields, **given)
    assert "nowhere" not in str(refusal.value)
    assert refusal.value.__suppress_context__ or refusal.value.__context__ is None


@pytest.mark.parametrize(("name", "value"), OTHER_KINDS)
def test_an_argument_of_another_kind_is_refused_by_name(tmp_path, name, value):
    right = {"model": "./nowhere", "train_dataset": rows(), "args": config(tmp_path)}
    with pytest.raises(TypeError, match=f"^{name} must be .*$"):
        BARLTrainer(**right | {name: value})


def test_what_is_right_fails_for_its_model_alone(tmp_path):
    for settings, mine in (
        ({}, {"train_dataset": stream(ROW, ROW)}),
        (TASK, {"train_dataset": rows(solution=None), "reward_funcs": format_reward}),
        (TASK, GAME | {"reward_funcs": [price]}),
    ):
        with pytest.raises(OSError, match="nowhere"):
            built(tmp_path, settings, **mine)


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
    (tmp_path / "adapter_config.json").touch()
    with pytest.raises(ValueError, match="adapter"):
        BARLTrainer(tmp_path, accuracy_reward, config(tmp_path), rows())
    with pytest.raises(ValueError, match="weights to train"):
        trainer(tiny_model(tokenizer).requires_grad_(False), tokenizer, config(tmp_path)).train()


@pytest.mark.parametrize("is_corrected", [True, False])
def test_settings_that_are_warned_of(tmp_path, recwarn, is_corrected):
    fields = {"use_vllm": True, "top_p": 0.9, "step_size": 64 if is_corrected else 8}
    fields |= {"vllm_importance_sampling_correction": is_corrected}
    with pytest.raises(ValueError, match="no column"):
        built(tmp_path, fields, train_dataset=rows(completions="x"))
    said = [str(one.message) for one in recwarn]
    for about in ("one weight", "importance ratio"):
        assert any(about in text for text in said) == is_corrected


# A user's functions


def test_functions_are_checked_on_each_call_and_graders_taken_by_their_names():
    for extractor in (len, lambda text: [text], lambda: "4", "qwne"):
        with pytest.raises((TypeError, ValueError)):
            answer_extractor_of(extractor)
    for verdict in ([True, True], None, 0.93):
        with pytest.raises(TypeError):
            answer_equivalence_of(lambda a, b, verdict=verdict: verdict)
    extract = answer_extractor_of(lambda text: 7 if "seven" in text else None)
    assert extract("4") is None
    with pytest.raises(TypeError):
        extract("seven")
    for one in (True, np.True_, torch.tensor(True)):
        assert answer_equivalence_of(lambda a, b, one=one: one)("4", "5")
    assert answer_extractor_of("math_verify")(r"\boxed{\frac12}") == r"\frac12"
    assert answer_equivalence_of("math_verify")("0.5", r"\frac12")
