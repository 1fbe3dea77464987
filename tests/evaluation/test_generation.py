"""Completions, against decoding one token after the other without any batch."""

from collections import Counter

import pytest
import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM

from barl_trl.evaluation.benchmarks import Problem
from barl_trl.evaluation.generation import Backend, Drawing, Job
from barl_trl.trainer.turns import Episode

MAX_TOKENS = 12


@pytest.fixture
def prompts(tokenizer):
    return tokenizer(["1 + 1?", "How many are there?", "x", "the final answer is"])["input_ids"]


def jobs_of(prompts, samples=1):
    keys = enumerate((i, sample) for i in range(len(prompts)) for sample in range(samples))
    return [Job((i, n), prompts[i], seed, Problem(i, "?", "?")) for seed, (i, n) in keys]


def backend(model_path, tokenizer, drawing=None, end_ids=None, **changes):
    settings = {"max_tokens": MAX_TOKENS, "batch_size": 3} | changes
    end_ids = end_ids or [tokenizer.eos_token_id]
    return Backend(model_path, tokenizer, end_ids, drawing or Drawing(), **settings)


def completions(generator, jobs, done=()):
    return {job.key: made for batch in generator.complete(jobs, done) for job, made in batch}


def by_hand(model, tokenizer, prompts, end_ids):
    """Greedy completions by key."""

    def one(prompt):
        ids = list(prompt)
        for _ in range(MAX_TOKENS):
            ids.append(model(torch.tensor([ids])).logits[0, -1].argmax().item())
            if ids[-1] in end_ids:
                break
        made = ids[len(prompt) :]
        kept = made[:-1] if made[-1] in end_ids else made
        text = tokenizer.decode(kept, skip_special_tokens=True)
        own = [1] * len(kept)
        return Episode("", text, text, kept, own, len(kept), len(kept) == MAX_TOKENS, None)

    return {(i, 0): one(prompt) for i, prompt in enumerate(prompts)}


def test_greedy_is_the_likeliest_token_each_time(model_path, model, tokenizer, prompts):
    made = completions(backend(model_path, tokenizer), jobs_of(prompts))
    assert made == by_hand(model, tokenizer, prompts, [tokenizer.eos_token_id])
    assert backend(model_path, tokenizer).model.dtype == torch.float32
    double = backend(model_path, tokenizer, dtype=torch.float64)
    assert double.model.dtype == torch.float64


def test_any_end_of_turn_ends_a_completion(model_path, model, tokenizer, prompts):
    free = by_hand(model, tokenizer, prompts, [])[1, 0]
    end_ids = [tokenizer.eos_token_id, free.token_ids[5]]
    made = completions(backend(model_path, tokenizer, end_ids=end_ids), jobs_of(prompts))
    assert made == by_hand(model, tokenizer, prompts, end_ids)
    assert {completion.is_cut_off for completion in made.values()} == {False, True}


def test_the_models_own_generation_settings_are_left_out(tmp_path, model, tokenizer, prompts):
    expected = by_hand(model, tokenizer, prompts, [tokenizer.eos_token_id])
    model.generation_config.update(repetition_penalty=5.0, no_repeat_ngram_size=1)
    model.save_pretrained(tmp_path)
    assert completions(backend(str(tmp_path), tokenizer), jobs_of(prompts)) == expected


def test_an_adapter_is_loaded_onto_its_base_model(tmp_path, model_path, tokenizer, prompts):
    config = LoraConfig(r=2, target_modules="all-linear", init_lora_weights=False)
    torch.manual_seed(0)
    adapted = get_peft_model(AutoModelForCausalLM.from_pretrained(model_path), config)
    adapted.save_pretrained(tmp_path)
    made = completions(backend(str(tmp_path), tokenizer), jobs_of(prompts))
    merged = adapted.merge_and_unload()
    assert made == by_hand(merged, tokenizer, prompts, [tokenizer.eos_token_id])
    assert made != completions(backend(model_path, tokenizer), jobs_of(prompts))


# Sampling


def test_the_backend_cuts_off(model_path, model, tokenizer, prompts):
    """One token at a time is left: that is greedy decoding."""
    expected = by_hand(model, tokenizer, prompts, [tokenizer.eos_token_id])
    for cut_off in ({"top_k": 1}, {"top_p": 1e-9}, {"min_p": 1.0}):
        cut = backend(model_path, tokenizer, Drawing(1.5, **cut_off))
        assert completions(cut, jobs_of(prompts)) == expected


def test_samples_have_the_probabilities_of_the_softmax(model_path, model, tokenizer, prompts):
    """All of them: without a cut-off, transformers' own default of 50 tokens is not applied."""
    generator = backend(model_path, tokenizer, Drawing(1.5), max_tokens=1, batch_size=1000)
    jobs = jobs_of(prompts[:1], samples=4000)
    made = completions(generator, jobs).values()
    drawn = Counter(token for one in made for token in one.token_ids)
    probabilities = (model(torch.tensor([prompts[0]])).logits[0, -1] / 1.5).softmax(dim=0).tolist()
    assert len(drawn) > 50
    for token, count in drawn.most_common(20):
        probability = probabilities[token]
        deviation = (probability * (1 - probability) * len(jobs)) ** 0.5
        assert abs(count - probability * len(jobs)) <= 4.5 * deviation


def test_samples_follow_from_the_seeds_and_whole_batches_are_made_again(
    model_path, tokenizer, prompts
):
    jobs = jobs_of(prompts, samples=3)
    generator = backend(model_path, tokenizer, Drawing(1.0))
    batches = list(generator.complete(jobs, ()))
    assert [len(batch) for batch in batches] == [3, 3, 3, 3]
    made = completions(generator, jobs)
    assert made == {job.key: one for batch in batches for job, one in batch}
    assert completions(generator, [job._replace(seed=job.seed + 1) for job in jobs]) != made
    assert len({tuple(made[1, sample].token_ids) for sample in range(3)}) == 3
    done = {job.key for job, _ in [*batches[0], *batches[1], batches[2][0]]}
    assert list(generator.complete(jobs, done)) == batches[2:]
