"""From rollouts to likelihoods: what transformers generated is not fed to the model again."""

import copy
import gc
from functools import partial

import pytest
import torch
from peft import LoraConfig
from transformers import DynamicCache

from barl_trl import BARLTrainer
from barl_trl.plausibility.kv_cache import GenerationCache
from barl_trl.steps import delimited_steps
from barl_trl.trainer.records import FOLDER, read_records

from . import by_hand
from .rollouts import CASES, COMPLETIONS, PROBLEMS, config, given_rollouts, trainer, weights_of

# Hypotheses and steps


def test_answer_extractor_and_equivalence_are_the_users(model, tokenizer, tmp_path):
    barl_trainer = trainer(
        model,
        tokenizer,
        config(tmp_path, log_beliefs=True),
        answer_extractor=lambda text: text.split()[-1] if text else None,
        answer_equivalence=lambda a, b: False,
    )
    barl_trainer.train()
    first, *_ = read_records(tmp_path / FOLDER)
    assert first["hypotheses"] == ["2", r"\boxed{2}", r"\boxed{3}", "idea", r"\boxed{2.0}"]


def test_answers_that_become_no_hypothesis_are_dropped_and_counted(model, tokenizer, tmp_path):
    answers = {"long": "123456", "special": "<|im_start|>", "five": "5", "six": "6"}
    settings = {"max_answer_chars": 5, "max_hypotheses": 2, "per_device_train_batch_size": 4}
    barl_trainer = trainer(
        model,
        tokenizer,
        config(tmp_path, log_beliefs=True, **settings),
        rows=PROBLEMS[:1],
        rollout_func=given_rollouts({"1+1?": list(answers)}),
        answer_extractor=answers.get,
    )
    barl_trainer.train()
    log = barl_trainer.state.log_history[0]
    reasons = ("too_long", "special_token", "over_max_hypotheses")
    assert [log[f"barl/dropped/{reason}"] for reason in reasons] == [0.25, 0.25, 0.25]
    first, *_ = read_records(tmp_path / FOLDER)
    assert first["hypotheses"] == ["2", "5"]


def test_step_segmenter_replaces_the_step_size(model, tokenizer, tmp_path):
    segmenter = partial(delimited_steps, decode=tokenizer.decode, delimiter=",")
    args = config(tmp_path, value_normalization="none")
    got = weights_of(trainer(model, tokenizer, args, step_segmenter=segmenter))
    comma = tokenizer.encode(COMPLETIONS["1+1?"][3]).index(tokenizer.encode(",")[0])
    assert len(set(got[3][: comma + 1])) == 1
    assert len(set(got[3][comma + 1 : -1])) == 1
    assert got[3][comma] != got[3][comma + 1]


@pytest.mark.parametrize("ends", [[4], [4, 4, 99], [99]])
def test_a_wrong_step_segmenter_is_named(model, tokenizer, tmp_path, ends):
    barl_trainer = trainer(
        model,
        tokenizer,
        config(tmp_path),
        step_segmenter=lambda ids: [4] if len(ids) == 4 else ends,  # four tokens are tried first
    )
    with pytest.raises(ValueError, match="step_segmenter must return strictly ascending ends"):
        barl_trainer.train()


def test_truncated_completions_are_scored_up_to_their_last_token(
    model, tokenizer, tmp_path, expected_weights
):
    rollouts = given_rollouts(cut_off=[completion for _, completion, _ in CASES])
    for masked in (False, True):
        args = config(tmp_path, value_normalization="none", mask_truncated_completions=masked)
        got = weights_of(trainer(copy.deepcopy(model), tokenizer, args, rollout_func=rollouts))
        expected = [row[:-1] for row in expected_weights]
        expected[5] = [0.0]  # an empty completion is its end of turn alone
        by_hand.assert_equal(got, [[], [], [], [], [], expected[5], [], []] if masked else expected)


# Without feeding it again


class Keeping(BARLTrainer):
    """Keeps what the rollouts were generated as, and how they were scored."""

    def _score(self, **kwargs):
        self.generated = self._batch.generated
        self.scored = super()._score(**kwargs)
        return self.scored


def answer(text):
    """One of three answers: random weights give none."""
    return str(1 + len(text) % 3)


def reward(completions, **_):
    return [float(answer(text) == "2") for text in completions]


def generate_and_score(model, tokenizer, args, **kwargs):
    options = {"rollout_func": None, "reward_funcs": reward, "answer_extractor": answer} | kwargs
    keeping = trainer(copy.deepcopy(model), tokenizer, args, cls=Keeping, **options)
    keeping.model.train()
    torch.manual_seed(0)
    rows = [{"prompt": prompt, "solution": "2"} for prompt, _ in PROBLEMS for _ in range(4)]
    keeping._generate_and_score_completions(rows)
    return keeping


def score_again(keeping):
    """The same rollouts, fed whole."""
    return keeping.scorer.score(
        keeping.model,
        keeping.generated._replace(cache=None),
        [{"solution": "2"}] * 8,
        start=0,
        group_size=4,
        score_completions=False,
        completion_temperature=1.0,
        max_tokens=None,
    )


@pytest.mark.parametrize("adapter", [False, True])
def test_a_rollout_is_not_fed_again(model, tokenizer, tmp_path, adapter):
    lora = LoraConfig(r=4, init_lora_weights=False) if adapter else None
    keeping = generate_and_score(model, tokenizer, config(tmp_path), peft_config=lora)
    got, expected = keeping.scored.likelihoods, score_again(keeping).likelihoods
    assert got.hypothesis_mask.sum() > 8
    torch.testing.assert_close(got.answer_logps, expected.answer_logps, atol=1e-4, rtol=0)
    # of a completion that was cut off the last token was sampled and never fed
    chains = sum(ends[-1] for ends in keeping.scored.step_ends if ends)
    assert expected.num_tokens - got.num_tokens >= chains - 8
    assert keeping._batch.generated.cache is None  # it is not kept through the optimizer step


def test_the_cache_lives_neither_through_the_rewards_nor_the_reference_forward(
    model, tokenizer, tmp_path
):
    def caches():
        return sum(isinstance(o, DynamicCache | GenerationCache) for o in gc.get_objects())

    def counting(completions, **_):
        alive.append(caches())
        return [0.0] * len(completions)

    alive = []
    gc.collect()
    before = caches()
    options = {"rollout_func": None, "reward_funcs": counting}
    model.save_pretrained(tmp_path / "model")
    args = config(tmp_path, beta=0.1, max_steps=1)
    run = trainer(str(tmp_path / "model"), tokenizer, args, **options)
    run.ref_model.register_forward_pre_hook(lambda *_: alive.append(caches()))
    run.train()
    assert len(alive) > 1 and set(alive) == {before}


@pytest.mark.parametrize("dropout", [0.0, 0.1])
def test_dropout_that_costs_a_pass_is_said_once(model, tokenizer, tmp_path, caplog, dropout):
    lora = LoraConfig(r=4, lora_dropout=dropout)
    keeping = generate_and_score(model, tokenizer, config(tmp_path), peft_config=lora)
    keeping._generate_and_score_completions(keeping._batch.inputs)
    said = [record.message for record in caplog.records if "Set lora_dropout" in record.message]
    assert len(said) == (dropout > 0)


@pytest.mark.parametrize(
    ("kwargs", "fields"),
    [
        ({"peft_config": LoraConfig(r=4, lora_dropout=0.1)}, {}),
        ({}, {"cache_implementation": "static"}),
        ({}, {"scoring_method": "reencode"}),
        ({}, {"per_device_train_batch_size": 4, "steps_per_generation": 2}),  # old logps are read
    ],
)
def test_or_it_is_where_the_cache_is_no_help(model, tokenizer, tmp_path, kwargs, fields):
    keeping = generate_and_score(model, tokenizer, config(tmp_path, **fields), **kwargs)
    got, expected = keeping.scored.likelihoods, score_again(keeping).likelihoods
    assert got.num_tokens >= expected.num_tokens
    torch.testing.assert_close(got.answer_logps, expected.answer_logps, atol=1e-4, rtol=0)


def test_a_rollout_func_may_have_sampled_with_other_weights(model, tokenizer, tmp_path):
    def sampled_without_adapter(prompts, trainer):
        rollouts = [tokenizer.encode(prompt) for prompt in prompts]
        rows = tokenizer.pad({"input_ids": rollouts}, padding_side="left", return_tensors="pt")
        with trainer.model.disable_adapter():
            completions = trainer.model.generate(**rows, max_new_tokens=8)[:, -8:]
        return {
            "prompt_ids": rollouts,
            "completion_ids": completions.tolist(),
            "logprobs": None,
        }

    options = {"rollout_func": sampled_without_adapter, "peft_config": LoraConfig(r=4)}
    keeping = generate_and_score(model, tokenizer, config(tmp_path), **options)
    assert keeping.generated.cache is None
