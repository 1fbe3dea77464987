"""What `BARLTrainer` refuses, before it loads a model: `model="nowhere"` would fail otherwise."""

from functools import partial
from importlib.util import find_spec
from pathlib import Path

import pytest
from barl_trl.trainer.checks.arguments import check_shared_arguments, refuse_missing_modules
from datasets import Dataset
from peft import LoraConfig, PrefixTuningConfig, get_peft_model
from transformers import Qwen2Config, Qwen2ForSequenceClassification
from trl import GRPOConfig

from barl_trl import BARLConfig, BARLTrainer
from barl_trl.rewards import accuracy_reward, format_reward

from ..rollouts import config, trainer

CPU = {"use_cpu": True, "bf16": False}
ROWS = Dataset.from_dict({"prompt": ["1+1?"], "solution": ["2"]})


@pytest.mark.parametrize(
    ("kwargs", "error", "message"),
    [
        ({"tools": [print]}, ValueError, "train_dataset must have messages as prompts with tools"),
        ({"reward_funcs": None}, ValueError, "reward_funcs must hold at least one function"),
        (
            {"reward_funcs": "math_verfy"},
            ValueError,
            "reward function must be a known name .* got 'math_verfy': did you mean .*math_verify",
        ),
        (
            {"args": BARLConfig("out", extraction="stated", **CPU), "reward_funcs": "qwen"},
            ValueError,
            "extraction must be left at 'boxed' with the grader qwen, got 'stated': it reads",
        ),
        (
            {
                "args": BARLConfig("out", extraction="stated", **CPU),
                "answer_extractor": str.strip,
            },
            ValueError,
            "extraction must be left at 'boxed' with an answer_extractor, got 'stated': what",
        ),
        (
            {"train_dataset": ROWS.rename_column("solution", "solutions")},
            ValueError,
            r"must name the column of true answers .* did you mean solution_column='solutions'\?",
        ),
        (
            {"train_dataset": ROWS.add_column("image", [None])},
            ValueError,
            r"train_dataset must be text-only, got the column \['image'\]",
        ),
        (
            {
                "args": BARLConfig("out", solution_column="gold", **CPU),
                "train_dataset": ROWS.rename_column("solution", "gold"),
            },
            ValueError,
            "must have the column 'solution' for accuracy_reward, .* rename 'gold'",
        ),
        (
            {
                "train_dataset": Dataset.from_dict(
                    {"prompt": ["1?"], "question": [""], "gold": [""]}
                )
            },
            ValueError,
            r"got 'solution' with the columns .*: did you mean solution_column='gold'\?",
        ),
        (
            {"reward_funcs": [lambda completions, **_: [], lambda completions, **_: []]},
            ValueError,
            r"reward_funcs must have names of their own, got '<lambda>' 2 times: .* `def`",
        ),
        (
            {"reward_funcs": ("format_reward", partial(format_reward))},
            ValueError,
            r"reward_funcs must have names of their own, got 'format_reward' 2 times",
        ),
        (
            {"peft_config": PrefixTuningConfig(task_type="CAUSAL_LM", num_virtual_tokens=2)},
            ValueError,
            "gradient_checkpointing must be False with PREFIX_TUNING, got True: it drops the cache",
        ),
        (
            {"args": BARLConfig("out", report_to=["dvclive"], **CPU)},
            ValueError,
            "report_to must name installed trackers, got 'dvclive': install it",
        ),
        (
            {"args": BARLConfig("out", report_to="wanbd", **CPU)},
            ValueError,
            "report_to must name installed trackers, got 'wanbd'",
        ),
        ({"train_dataset": [{"prompt": "1+1?"}]}, TypeError, "got list: Dataset.from_list makes"),
        (
            {"args": GRPOConfig("out", use_cpu=True, bf16=False)},
            TypeError,
            "args must be a BARLConfig, got GRPOConfig",
        ),
    ],
)
def test_refused_before_the_model_is_loaded(tmp_path, kwargs, error, message):
    defaults = {
        "reward_funcs": accuracy_reward,
        "args": config(tmp_path),
        "train_dataset": ROWS,
    }
    with pytest.raises(error, match=message):
        BARLTrainer(model="nowhere", **defaults | kwargs)


def best_of(tmp_path, metric, reward=accuracy_reward, names=("a", "b")):
    """Make a trainer that looks for the best model among evaluation sets of those names."""
    settings = {"eval_strategy": "steps", "eval_steps": 1, "per_device_eval_batch_size": 4}
    args = config(tmp_path, metric_for_best_model=metric, **settings)
    rows = Dataset.from_dict({"prompt": ["1+1?"] * 2, "solution": ["2"] * 2})
    return BARLTrainer("./nowhere", reward, args, rows, dict.fromkeys(names, rows))


@pytest.mark.parametrize("metric", ["eval_c_reward", "c_reward_std"])
def test_the_best_model_is_that_of_an_evaluation_set_that_there_is(tmp_path, metric):
    rule = rf"must be of an evaluation set, got '{metric}', where there are \['a', 'b'\]: name one"
    with pytest.raises(ValueError, match=f"metric_for_best_model {rule}"):
        best_of(tmp_path, metric)


def logs_by_itself(completions, log_metric, **_):
    return [0.0 for _ in completions]


@pytest.mark.parametrize(
    ("metric", "reward"),
    [
        ("eval_b_reward", accuracy_reward),
        ("eval_reward_std", accuracy_reward),
        ("eval_sums/accuracy", accuracy_reward),
        ("eval_policy_loss", accuracy_reward),
        ("eval_my_reward", logs_by_itself),
    ],
)
def test_metrics_that_there_may_be_are_no_mistake(tmp_path, metric, reward):
    with pytest.raises(OSError, match="nowhere"):  # the model is loaded
        best_of(tmp_path, metric, reward)


def test_a_given_model_has_no_prefix_either(tmp_path, model, tokenizer):
    adapted = get_peft_model(model, PrefixTuningConfig(task_type="CAUSAL_LM", num_virtual_tokens=2))
    with pytest.raises(ValueError, match="gradient_checkpointing must be False with PREFIX_TUNING"):
        trainer(adapted, tokenizer, config(tmp_path))
    trainer(adapted, tokenizer, config(tmp_path, gradient_checkpointing=False))


def test_a_path_is_a_model_and_a_tuple_holds_rewards(tmp_path, model_path):
    rows = Dataset.from_dict({"prompt": ["1+1?", "2+2?"], "solution": ["2", "4"]})
    rewards = (accuracy_reward, "format_reward")
    made = BARLTrainer(Path(model_path), rewards, config(tmp_path), rows)
    assert made.reward_func_names == ["accuracy_reward", "format_reward"]


@pytest.mark.skipif(find_spec("vllm") is not None, reason="vLLM is installed")
@pytest.mark.parametrize("mode", ["colocate", "server"])
def test_vllm_must_be_installed(tmp_path, mode):
    args = config(tmp_path, use_vllm=True, vllm_mode=mode)
    with pytest.raises(ImportError, match=r"install it with `pip install 'barl-trl\[vllm\]'`"):
        BARLTrainer("nowhere", accuracy_reward, args, ROWS)


def test_reward_models_are_told_apart_by_their_names_not_their_class():
    def of(name):
        config = Qwen2Config(
            hidden_size=8,
            intermediate_size=8,
            num_hidden_layers=1,
            num_attention_heads=2,
            num_key_value_heads=2,
            vocab_size=9,
            num_labels=1,
        )
        made = Qwen2ForSequenceClassification(config)
        made.config._name_or_path = name
        return made

    args = BARLConfig("out", **CPU)
    shared = {"train_dataset": ROWS}
    different = [of("team/helpful"), of("team/harmless")]
    assert len(check_shared_arguments(args, reward_funcs=different, **shared)) == 2
    with pytest.raises(ValueError, match="names of their own, got 'helpful' 2 times"):
        check_shared_arguments(args, reward_funcs=[of("a/helpful"), of("b/helpful")], **shared)


@pytest.mark.parametrize(
    ("targets", "hint"),
    [
        (["q_prj"], "did you mean 'q_proj'?"),
        (["Wqkv"], "'all-linear' takes all of them."),
        (r".*\.q_prj", "did you mean 'q_proj'?"),
        ("q_proj", r"one name alone is a regular expression of whole paths, here '.*\.q_proj'."),
    ],
)
def test_modules_that_a_model_lacks_are_refused_with_those_that_it_has(model_path, targets, hint):
    with pytest.raises(ValueError, match=r"lora_target_modules .* must name modules") as said:
        refuse_missing_modules(model_path, LoraConfig(target_modules=targets), {})
    assert "down_proj, gate_proj, k_proj" in str(said.value)
    assert str(said.value).endswith(hint)


@pytest.mark.parametrize(
    "targets", [["q_proj", "Wqkv"], r".*\.q_proj", "all-linear", ["0.self_attn.q_proj"], None]
)
def test_what_peft_would_find_is_left_to_it(model_path, targets):
    refuse_missing_modules(model_path, LoraConfig(target_modules=targets), {})


def test_without_an_adapter_and_with_a_loaded_model_nothing_is_looked_at(model, model_path):
    refuse_missing_modules(model_path, None, {})
    refuse_missing_modules(model, LoraConfig(target_modules=["q_prj"]), {})
