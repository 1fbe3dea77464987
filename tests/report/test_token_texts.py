"""Texts of tokens, which joined must be what the tokenizer decodes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from barl_trl.trainer.recorder import TokenTexts

from ..tiny import tiny_tokenizer


def metaspace_tokenizer():
    """As Llama 2's: a space in front of words, which decoding takes from the first; bytes."""
    words = ["▁", "▁a", "▁of", "a", "b", *(f"<0x{n:02X}>" for n in range(256))]
    vocabulary = {"<unk>": 0} | {word: n for n, word in enumerate(words, 1)}
    merges = [("▁", "a")]
    core = Tokenizer(models.BPE(vocabulary, merges, unk_token="<unk>", byte_fallback=True))
    core.pre_tokenizer = pre_tokenizers.Metaspace()
    steps = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    core.decoder = decoders.Sequence([*steps, decoders.Strip(" ", 1, 0)])
    return PreTrainedTokenizerFast(tokenizer_object=core, unk_token="<unk>")


TOKENIZERS = {"bytes": tiny_tokenizer(), "metaspace": metaspace_tokenizer()}
TEXTS = st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=12), max_size=4)


@pytest.mark.parametrize("name", TOKENIZERS)
@given(TEXTS)
def test_texts_joined_are_the_completion(name, texts):
    tokenizer = TOKENIZERS[name]
    rows = [tokenizer.encode(text, add_special_tokens=False) for text in texts]
    column = TokenTexts(tokenizer).column(rows).to_pylist()
    assert [*map(len, column)] == [*map(len, rows)]
    assert ["".join(row) for row in column] == [tokenizer.decode(ids) for ids in rows]


def test_a_character_of_several_tokens_is_with_its_last(tokenizer):
    ids = tokenizer.encode("é = 2")
    [texts] = TokenTexts(tokenizer).column([ids]).to_pylist()
    assert texts[:3] == ["", "é", " "]


def test_special_tokens_are_shown(tokenizer):
    ids = [*tokenizer.encode("2"), tokenizer.eos_token_id]
    assert TokenTexts(tokenizer).column([ids]).to_pylist() == [["2", "<|im_end|>"]]


def test_what_is_no_character_is_one_in_no_row_but_its_own(tokenizer):
    """Rows of a batch are apart: half a character does not end in the next row."""
    first, second = tokenizer.encode("é")
    texts = TokenTexts(tokenizer)
    lost = "\N{REPLACEMENT CHARACTER}"
    expected = [[lost], [lost], ["", "é"], []]
    assert texts.column([[first], [second], [first, second], []]).to_pylist() == expected


def test_ids_that_are_new_later_are_learned(tokenizer):
    texts = TokenTexts(tokenizer)
    for text in ("a", "boxed", "a boxed ², Z"):
        [row] = texts.column([tokenizer.encode(text)]).to_pylist()
        assert "".join(row) == text
