"""Completions end as the chat template says, and hold what the model itself wrote."""

import re
from functools import partial
from types import SimpleNamespace

import pytest
from datasets import Dataset
from transformers import GenerationConfig

from barl_trl import BARLTrainer
from barl_trl.rewards import accuracy_reward
from barl_trl.synthetic.search import search_rows
from barl_trl.trainer.rollouts.turns import tell_ends

from ..base_model import save_base_model, search_messages
from .rollouts import config, make_trainer, trainer, weights_of

# The layout of Qwen2.5-Math's base models


@pytest.fixture(scope="module")
def base_model(tmp_path_factory):
    folder = str(tmp_path_factory.mktemp("base"))
    save_base_model(folder)
    return folder


def base_trainer(model, args, *, cls=BARLTrainer, conversational=True, **kwargs):
    rows = search_messages() if conversational else Dataset.from_list(search_rows(8, seed=0))
    return cls(model=model, reward_funcs=accuracy_reward, args=args, train_dataset=rows, **kwargs)


def ends(tokenizer):
    return tokenizer.convert_tokens_to_ids(["<|endoftext|>", "<|im_end|>"])


@pytest.mark.parametrize("method", ["barl", "grpo"])
def test_a_base_models_completions_end_where_its_template_ends_a_message(
    base_model, tmp_path, caplog, method
):
    benchmarks = {"mine": search_messages(4)}
    args = config(tmp_path, max_completion_length=96, eval_strategy="steps", eval_steps=1)
    make = partial(make_trainer, method)
    base = base_trainer(base_model, args, cls=make, benchmarks=benchmarks)
    base.train()
    log = {name: value for row in base.state.log_history for name, value in row.items()}
    assert log["completions/clipped_ratio"] == 0
    assert log["reward"] > 0
    assert log["eval_mine/mean_tokens"] < 96
    (said,) = (text for text in caplog.messages if "completions also end" in text)
    assert said.startswith("completions also end with <|im_end|> (359), as the chat template or")

    base.save_model(str(tmp_path))
    base.create_model_card()
    expected = ends(base.processing_class)
    assert GenerationConfig.from_pretrained(tmp_path).eos_token_id == expected
    assert f"| eos_token_id | `{expected}` |" in (tmp_path / "README.md").read_text()
    if method == "barl":
        assert log["barl/no_answer"] < 0.5
        assert set(expected) <= set(base.scorer.end_ids)


def test_prompts_of_text_end_with_the_eos_alone(base_model, tmp_path, caplog):
    base = base_trainer(base_model, config(tmp_path), conversational=False)
    assert base.eos_token_ids == ends(base.processing_class)[:1]
    assert "completions also end" not in caplog.text


def test_vllm_is_told(base_model, tmp_path):
    base = base_trainer(base_model, config(tmp_path))
    expected = base.eos_token_ids
    base.use_vllm, base.eos_token_ids = True, expected[:1]
    given = {"seed": 1}
    base.vllm_generation = SimpleNamespace(generation_kwargs=given)
    tell_ends(base)
    assert base.vllm_generation.generation_kwargs == {"seed": 1, "stop_token_ids": expected}
    assert given == {"seed": 1}  # it is that of the settings


@pytest.mark.parametrize("given", [5, [5], [5, 360]])
def test_ends_that_a_user_names_are_known_to_all(base_model, tmp_path, given):
    args = config(tmp_path, generation_kwargs={"eos_token_id": given})
    base = base_trainer(base_model, args, conversational=False)
    assert base.eos_token_ids == [360, 5]
    assert base.generation_config.eos_token_id == [360, 5]
    assert base.generation_kwargs["eos_token_id"] == [360, 5]


def test_ends_that_leave_out_the_templates_are_refused(base_model, tmp_path):
    args = config(tmp_path, generation_kwargs={"eos_token_id": [360]})
    message = re.escape("or name <|im_end|> (359) in it, got [360]: the chat template ends")
    with pytest.raises(ValueError, match=message):
        base_trainer(base_model, args)


# Others' text

ROWS = [("1+1?", "2"), ("2+1?", "3")]
BOX = r"\boxed{9}"


def say(tokenizer, *parts):
    """Token ids of parts of a rollout, and which are the model's: texts are, pairs' second not."""
    ids, mask = [], []
    for part in parts:
        is_own = isinstance(part, str)
        ids += tokenizer.encode(part if is_own else part[0])
        mask += [int(is_own)] * (len(ids) - len(mask))
    return ids, mask


def playing(*parts, masked=True):
    def rollout_func(prompts, trainer):
        tokenizer = trainer.processing_class
        ids, mask = say(tokenizer, *parts)
        output = {
            "prompt_ids": [tokenizer.encode(str(prompt)) for prompt in prompts],
            "completion_ids": [ids for _ in prompts],
            "logprobs": None,
        }
        return output | ({"env_mask": [mask for _ in prompts]} if masked else {})

    return rollout_func


def test_turns_that_no_mask_tells_apart_are_refused(model, tokenizer, tmp_path):
    parts = ["Is it 3?<|im_end|>", r"\boxed{2}<|im_end|>"]
    first = len(tokenizer.encode("Is it 3?"))
    whole = len(say(tokenizer, *parts)[0])
    barl_trainer = trainer(
        model, tokenizer, config(tmp_path), rows=ROWS, rollout_func=playing(*parts, masked=False)
    )
    message = (
        "rollout_func must mark in env_mask what the model did not write, got rollout 0 with an "
        f"end of turn at token {first} of {whole} and tokens of the model behind it"
    )
    with pytest.raises(ValueError, match=message):
        barl_trainer.train()


class Keeping(BARLTrainer):
    def _score(self, **options):
        self.kept = super()._score(**options)
        return self.kept


@pytest.mark.parametrize("conversational", [False, True], ids=["text", "messages"])
def test_answers_and_rewards_are_read_from_the_models_own_text(
    model, tokenizer, tmp_path, conversational
):
    seen = []

    def reward(completions, solution, **kwargs):
        seen.extend(completions)
        return accuracy_reward(completions, solution)

    rows = ROWS
    if conversational:
        rows = [([{"role": "user", "content": prompt}], truth) for prompt, truth in rows]
    parts = [r"So \boxed{2}", (f" the page says {BOX} and <think>",), " ends.<|im_end|>"]
    barl_trainer = trainer(
        model,
        tokenizer,
        config(tmp_path, step_size=4),
        rows=rows,
        rollout_func=playing(*parts),
        reward_funcs=reward,
        cls=Keeping,
    )
    inputs = [{"prompt": prompt, "solution": truth} for prompt, truth in rows for _ in range(4)]
    barl_trainer.scorer.elicitation._forms[True, False] = None  # scoring fails if a thought is open
    weights = weights_of(barl_trainer, inputs)
    text = "So \\boxed{2}\n ends."
    assert seen == [[{"role": "assistant", "content": text}] if conversational else text] * 8
    assert barl_trainer.kept.answers == ["2"] * 8
    assert barl_trainer._batch.rewards_per_func[:, 0].tolist() == [1.0] * 4 + [0.0] * 4
    _, mask = say(tokenizer, *parts)
    assert [[bool(w) for w in row] for row in weights[4:]] == [[*map(bool, mask)]] * 4
