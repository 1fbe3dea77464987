"""Batches that shrink, against `generate` on every prompt alone and on the whole batch."""

import pytest
import torch
from transformers import (
    AutoModelForCausalLM,
    FalconMambaConfig,
    Gemma3TextConfig,
    GenerationConfig,
    LogitsProcessorList,
)
from transformers.cache_utils import DynamicCache

from barl_trl.evaluation.shrinking_batch import RowsProcessor, can_shrink, decode_shrinking

TEXTS = ["1 + 1?", "How many are there? It is \\boxed", "x", "the final answer is"]
MAX_TOKENS = 14


@pytest.fixture
def prompts(tokenizer):
    return tokenizer(TEXTS)["input_ids"]


def generate(model, prompts, end_ids, **options):
    width, pad = max(map(len, prompts)), end_ids[0]
    made = model.eval().generate(
        torch.tensor([[pad] * (width - len(p)) + p for p in prompts]),
        attention_mask=torch.tensor([[0] * (width - len(p)) + [1] * len(p) for p in prompts]),
        max_new_tokens=MAX_TOKENS,
        eos_token_id=end_ids,
        pad_token_id=pad,
        do_sample=False,
        **options,
    )
    return made[:, width:].tolist()


def shrinking(model, prompts, end_ids, **options):
    return generate(model, prompts, end_ids, custom_generate=decode_shrinking, **options)


def alone(model, prompts, end_ids):
    """Each row filled up with padding."""
    rows = [generate(model, [prompt], end_ids)[0] for prompt in prompts]
    return [row + [end_ids[0]] * (MAX_TOKENS - len(row)) for row in rows]


def ends_of(model, prompts):
    """Tokens with which rows end one after the other, and one not at all."""
    free = alone(model, prompts, [1])
    return sorted({free[0][3], free[1][8]})


SMALL = {"vocab_size": 340, "hidden_size": 32, "num_hidden_layers": 2, "initializer_range": 0.3}
HEADS = {"intermediate_size": 64, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8}
FAMILIES = {
    "sliding window": Gemma3TextConfig(
        **SMALL, **HEADS, sliding_window=4, layer_types=["sliding_attention", "full_attention"]
    ),
    "recurrent": FalconMambaConfig(**SMALL, state_size=4, use_mambapy=False),
}


def fed_by(model):
    fed = []
    model.register_forward_pre_hook(
        lambda _, args, kwargs: fed.append(tuple(kwargs["input_ids"].shape)), with_kwargs=True
    )
    return fed


def test_tokens_are_those_of_generate_and_finished_rows_are_not_fed(model, prompts):
    end_ids = ends_of(model, prompts)
    expected = alone(model, prompts, end_ids)
    assert generate(model, prompts, end_ids) == [row[:MAX_TOKENS] for row in expected]
    fed = fed_by(model)
    assert shrinking(model, prompts, end_ids) == expected
    sizes = [rows for rows, _ in fed]
    lengths = [next((n for n, t in enumerate(r, 1) if t in end_ids), MAX_TOKENS) for r in expected]
    assert sizes == [sum(length > place for length in lengths) for place in range(max(lengths))]
    assert min(sizes) < len(prompts)


@pytest.mark.parametrize("family", FAMILIES)
def test_other_families_give_the_same_tokens(family, prompts):
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(FAMILIES[family])
    end_ids = ends_of(model, prompts)
    expected = alone(model, prompts, end_ids)
    assert shrinking(model, prompts, end_ids) == expected
    lengths = {sum(token not in end_ids for token in row) for row in expected}
    assert len(lengths) > 1


def test_rows_that_all_end_end_the_loop(model, prompts):
    firsts = [row[0] for row in alone(model, prompts, [1])]
    fed = fed_by(model)
    made = shrinking(model, prompts, sorted(set(firsts)))
    assert [row[0] for row in made] == firsts
    assert len(fed) == 1


class Forbid(RowsProcessor):
    """Forbids each row a token of its own."""

    def __init__(self, tokens):
        self.tokens = tokens

    def __call__(self, input_ids, scores):
        return scores.scatter(1, torch.tensor(self.tokens)[:, None], -torch.inf)

    def keep(self, rows):
        self.tokens = [self.tokens[row] for row in rows]


def test_processors_are_told_which_rows_go_on(model, prompts):
    end_ids = ends_of(model, prompts)
    common = [max(set(row), key=row.count) for row in alone(model, prompts, end_ids)]
    processor = Forbid(common)
    made = shrinking(model, prompts, end_ids, logits_processor=LogitsProcessorList([processor]))
    expected = [
        generate(model, [p], end_ids, logits_processor=LogitsProcessorList([Forbid([token])]))[0]
        for p, token in zip(prompts, common, strict=True)
    ]
    assert [row[: len(e)] for row, e in zip(made, expected, strict=True)] == expected
    assert len(processor.tokens) < len(prompts)


@pytest.mark.parametrize("name", ["cache", "past_key_values"])  # since transformers 5.24, before
def test_only_keys_values_and_rows_can_be_taken_out(model, name):
    mask = {"attention_mask": torch.ones(4, 9)}
    assert can_shrink({name: DynamicCache(config=model.config), **mask}, 4)
    assert not can_shrink({name: None, **mask}, 4)
    assert not can_shrink({name: DynamicCache(), "positions": torch.ones(3, 4, 9)}, 4)


def test_rows_that_stay_although_attention_has_no_other_state_are_told_of_once(
    model, prompts, caplog
):
    end_ids = ends_of(model, prompts)
    expected = [row[:MAX_TOKENS] for row in alone(model, prompts, end_ids)]
    for _ in range(2):
        made = shrinking(model, prompts, end_ids, cache_implementation="static")
        assert made == expected
    (message,) = [record.getMessage() for record in caplog.records if "rows that" in record.msg]
    assert message.startswith("Qwen2ForCausalLM is fed with rows that have ended. They can be ta")
    assert ": StaticCache" in message


def test_settings_are_those_that_generate_prepares(model, prompts):
    config = GenerationConfig(max_new_tokens=3, eos_token_id=1, pad_token_id=1, do_sample=False)
    made = model.generate(
        torch.tensor([prompts[0]]), generation_config=config, custom_generate=decode_shrinking
    )
    assert made[0, len(prompts[0]) :].tolist() == alone(model, prompts[:1], [1])[0][:3]
