"""Completions, against decoding one token after the other without any batch."""

from collections import Counter
from dataclasses import replace
from importlib.util import find_spec

import pytest
import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM

from barl_trl.evaluation.generation.backends import (
    CompletionTokens,
    Decoding,
    Job,
    TransformersBackend,
    VLLMBackend,
)
from barl_trl.evaluation.generation.decoding import Drawing

MAX_TOKENS = 12


@pytest.fixture
def prompts(tokenizer):
    return tokenizer(["1 + 1?", "How many are there?", "x", "the final answer is"])["input_ids"]


def jobs_of(prompts, samples=1):
    keys = [(i, sample) for i in range(len(prompts)) for sample in range(samples)]
    return [Job(key, prompts[key[0]], seed) for seed, key in enumerate(keys)]


def decoding(tokenizer, **changes):
    greedy = Decoding([tokenizer.eos_token_id], MAX_TOKENS, Drawing(), batch_size=3)
    return replace(greedy, **changes)


def backend(model_path, tokenizer, **changes):
    return TransformersBackend(model_path, decoding(tokenizer, **changes))


def completions(generator, jobs, done=()):
    return {job.key: made for batch in generator.complete(jobs, done) for job, made in batch}


def greedy_by_hand(model, prompt, end_ids, max_tokens=MAX_TOKENS):
    ids = list(prompt)
    for _ in range(max_tokens):
        ids.append(model(torch.tensor([ids])).logits[0, -1].argmax().item())
        if ids[-1] in end_ids:
            return CompletionTokens(ids[len(prompt) : -1], truncated=False)
    return CompletionTokens(ids[len(prompt) :], truncated=True)


# Greedy


def test_greedy_is_the_likeliest_token_each_time(model_path, model, tokenizer, prompts):
    made = completions(backend(model_path, tokenizer), jobs_of(prompts))
    expected = [greedy_by_hand(model, prompt, [tokenizer.eos_token_id]) for prompt in prompts]
    assert [made[i, 0] for i in range(len(prompts))] == expected


def test_the_model_is_made_with_the_arguments_given(model_path, tokenizer):
    assert backend(model_path, tokenizer).model.dtype == torch.float32
    double = TransformersBackend(model_path, decoding(tokenizer), dtype=torch.float64)
    assert double.model.dtype == torch.float64


def test_any_end_of_turn_ends_a_completion(model_path, model, tokenizer, prompts):
    free = greedy_by_hand(model, prompts[1], [])
    end_ids = [tokenizer.eos_token_id, free.token_ids[5]]
    made = completions(backend(model_path, tokenizer, end_ids=end_ids), jobs_of(prompts))
    expected = [greedy_by_hand(model, prompt, end_ids) for prompt in prompts]
    assert [made[i, 0] for i in range(len(prompts))] == expected
    assert {completion.truncated for completion in expected} == {False, True}


def test_an_end_at_the_very_limit_is_no_truncation():
    assert CompletionTokens.of([5, 6, 1], [1]) == CompletionTokens([5, 6], truncated=False)
    assert CompletionTokens.of([5, 6, 7], [1]) == CompletionTokens([5, 6, 7], truncated=True)
    assert CompletionTokens.of([1, 0, 0], [1]) == CompletionTokens([], truncated=False)


def test_the_models_own_generation_settings_are_left_out(tmp_path, model, tokenizer, prompts):
    expected = [greedy_by_hand(model, prompt, [tokenizer.eos_token_id]) for prompt in prompts]
    model.generation_config.update(repetition_penalty=5.0, no_repeat_ngram_size=1)
    model.save_pretrained(tmp_path)
    made = completions(backend(str(tmp_path), tokenizer), jobs_of(prompts))
    assert [made[i, 0] for i in range(len(prompts))] == expected


def test_an_adapter_is_loaded_onto_its_base_model(tmp_path, model_path, tokenizer, prompts):
    config = LoraConfig(r=2, target_modules="all-linear", init_lora_weights=False)
    torch.manual_seed(0)
    adapted = get_peft_model(AutoModelForCausalLM.from_pretrained(model_path), config)
    adapted.save_pretrained(tmp_path)
    made = completions(backend(str(tmp_path), tokenizer), jobs_of(prompts))
    merged = adapted.merge_and_unload()
    expected = [greedy_by_hand(merged, prompt, [tokenizer.eos_token_id]) for prompt in prompts]
    assert [made[i, 0] for i in range(len(prompts))] == expected
    assert made != completions(backend(model_path, tokenizer), jobs_of(prompts))


# Sampling


def test_the_backend_cuts_off(model_path, model, tokenizer, prompts):
    """One token at a time is left: that is greedy decoding."""
    expected = [greedy_by_hand(model, prompt, [tokenizer.eos_token_id]) for prompt in prompts]
    for cut_off in ({"top_k": 1}, {"top_p": 1e-9}, {"min_p": 1.0}):
        made = completions(
            backend(model_path, tokenizer, drawing=Drawing(1.5, **cut_off)), jobs_of(prompts)
        )
        assert [made[i, 0] for i in range(len(prompts))] == expected


def test_samples_have_the_probabilities_of_the_softmax(model_path, model, tokenizer, prompts):
    """All of them: without a cut-off, transformers' own default of 50 tokens is not applied."""
    heated = Drawing(1.5)
    generator = backend(model_path, tokenizer, drawing=heated, max_tokens=1, batch_size=1000)
    jobs = jobs_of(prompts[:1], samples=4000)
    made = completions(generator, jobs)
    drawn = Counter(token for made_of_job in made.values() for token in made_of_job.token_ids)
    logits = model(torch.tensor([prompts[0]])).logits[0, -1]
    probabilities = (logits / heated.temperature).softmax(dim=0).tolist()
    assert len(drawn) > 50
    for token, count in drawn.most_common(20):
        probability = probabilities[token]
        deviation = (probability * (1 - probability) * len(jobs)) ** 0.5
        assert abs(count - probability * len(jobs)) <= 4.5 * deviation


def test_samples_follow_from_the_seeds(model_path, tokenizer, prompts):
    jobs = jobs_of(prompts, samples=3)
    generator = backend(model_path, tokenizer, drawing=Drawing(1.0))
    made = completions(generator, jobs)
    assert completions(generator, jobs) == made
    others = [job._replace(seed=job.seed + 1) for job in jobs]
    assert completions(generator, others) != made
    assert len({tuple(made[1, sample].token_ids) for sample in range(3)}) == 3


def test_batches_that_are_done_are_left_out_and_others_made_again(model_path, tokenizer, prompts):
    jobs = jobs_of(prompts, samples=3)
    generator = backend(model_path, tokenizer, drawing=Drawing(1.0))
    batches = list(generator.complete(jobs, ()))
    assert [len(batch) for batch in batches] == [3, 3, 3, 3]
    done = {job.key for job, _ in [*batches[0], *batches[1], batches[2][0]]}
    assert list(generator.complete(jobs, done)) == batches[2:]


# vLLM


@pytest.mark.skipif(find_spec("vllm") is not None, reason="vLLM is installed")
def test_vllm_is_asked_for_before_anything_is_loaded():
    with pytest.raises(ImportError, match="backend must be transformers without vLLM, got 'vllm'"):
        VLLMBackend("no/such", Decoding([0], 1, Drawing(), 1))
