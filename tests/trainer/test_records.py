"""Files of rollout records: whole, in order, with a schema that the documentation has, too. And the
texts of their tokens.
"""

import os
import re

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from barl_trl.trainer import records as rollout_records
from barl_trl.trainer.recorder import TokenTexts
from barl_trl.trainer.records import (
    SCHEMA,
    VERSION,
    file_name,
    forget_from,
    read_file,
    read_metadata,
    read_records,
    record_files,
    record_table,
)

from ..inspector.rollouts import make_record, write_records
from ..mangled import mangled, reads_or_names_the_file
from ..paths import ROOT
from ..tiny import tiny_tokenizer

FULL = make_record(0) | {
    **{"own_tokens": [1, 0] * 6 + [1], "turn_ends": [13], "observed_tools": [["look", "look"]]},
    **{"cost": -0.5, "outcomes_under": [0.0, 0.25, 1.0], "predicted_rewards": [[0.5, -1.0, 0.0]]},
    **{"token_weights": [0.25] * 12 + [0.0], "turn_rewards": [0.25], "states": [7]},
}
NEEDED = ("step", "group", "rollout", "prompt_id", "prompt", "token_ids", "tokens", "step_ends")


def record(**known):
    """A record without what may be missing."""
    return {name: FULL[name] for name in (*NEEDED, "rewards", "outcome")} | known


def test_records_are_read_as_they_were_written(tmp_path):
    path = tmp_path / file_name(3)
    write_records(path, [FULL, record()], {"credit": "barl"})
    assert [*read_records(tmp_path)] == [FULL, dict.fromkeys(SCHEMA.names) | record()]
    assert read_metadata(path) == {"version": VERSION, "credit": "barl"}
    columns = {name: [row[name] for row in (FULL, FULL)] for name in FULL}
    rollout_records.write_records(path, [record_table(columns)], {})
    assert [*read_records(tmp_path)] == [FULL, FULL]
    with pytest.raises(ValueError, match="tokens must be known"):
        record_table(columns | {"tokens": None})
    assert [*read_records(tmp_path, columns=["answer"])] == [{"answer": FULL["answer"]}] * 2


def test_files_are_in_order_and_those_of_steps_that_are_done_again_go(tmp_path):
    places = [(5, 0), (100_000, 0), (20, 10), (20, 0), (20, 2)]
    for n, place in enumerate(places):
        write_records(tmp_path / file_name(*place), [record(step=place[0], group=n)], {})
    for name in ("rollouts_new.parquet", "rollouts_00030.partial"):
        (tmp_path / name).touch()
    os.mkfifo(tmp_path / file_name(7))  # is not waited for
    assert [step for step, _ in record_files(tmp_path)] == [5, 20, 20, 20, 100_000]
    assert [found["group"] for found in read_records(tmp_path)] == [0, 3, 4, 2, 1]
    forget_from(tmp_path, 7)
    names = [file_name(5), file_name(7), "rollouts_new.parquet"]
    assert sorted(path.name for path in tmp_path.iterdir()) == names
    forget_from(tmp_path / "nowhere", 0)


def test_the_page_says_what_each_column_of_the_schema_means():
    page = (ROOT / "docs" / "inspector.md").read_text()
    section = page.split("\n## The files\n")[1].split("\n## ")[0]
    rows = re.findall(r"^\| (`\w+`.*?) \|", section, re.MULTILINE)
    assert [name for row in rows for name in re.findall(r"`(\w+)`", row)] == SCHEMA.names


def test_files_that_are_damaged_of_others_or_of_later_versions_are_named(tmp_path):
    path = tmp_path / file_name(0)
    write_records(path, [make_record(0)], {})
    table = pq.read_table(path)
    column = pq.ParquetFile(path).metadata.row_group(0).column(SCHEMA.get_field_index("token_ids"))
    content = bytearray(path.read_bytes())
    content[column.data_page_offset + column.total_compressed_size - 2] ^= 1
    contents = [
        content,
        table.drop_columns(["step"]),
        table.set_column(0, "step", table["step"].cast("int64")),
        table.replace_schema_metadata({b"barl_trl": b'{"version": "1"}'}),
        table.replace_schema_metadata({b"barl_trl": b"[1]"}),
        table.replace_schema_metadata(None),
        table.replace_schema_metadata({b"barl_trl": f'{{"version": {VERSION + 1}}}'.encode()}),
    ]
    for content in contents:
        if isinstance(content, bytearray):
            path.write_bytes(content)
        else:
            pq.write_table(content, path)
        with pytest.raises(ValueError, match=str(path)):
            read_file(path)


@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_mangled_file_is_read_or_named(tmp_path, data):
    path = tmp_path / file_name(0)
    write_records(path, [make_record(0)], {})
    reads_or_names_the_file(read_file, path, data.draw(mangled(path.read_bytes())))


@pytest.mark.parametrize(("version", "lacking"), [(1, 8), (2, 4)])
def test_a_file_of_an_older_version_is_read_without_what_it_lacks(tmp_path, version, lacking):
    path, added = tmp_path / file_name(0), SCHEMA.names[-lacking:]
    table = pa.Table.from_pylist([FULL], SCHEMA).drop_columns(added)
    rollout_records.write_records(path, [table], {"version": version})
    assert read_file(path) == ({"version": version}, [FULL | dict.fromkeys(added)])
    assert [*read_records(tmp_path, columns=[added[0]])] == [{added[0]: None}]
    # in training they counted the steps that were done
    rollout_records.write_records(path, [table], {"version": version, "source": "training"})
    assert [*read_records(tmp_path, columns=["step"])] == [{"step": FULL["step"] + 1}]


def test_no_record_says_where_a_model_lies_on_this_machine(tmp_path):
    path = tmp_path / file_name(0)
    for model, shown in (("/home/me/runs/tiny", "tiny"), ("org/tiny", "org/tiny")):
        write_records(path, [make_record(0)], {"model": model})
        assert b"/home/me" not in path.read_bytes()
        assert read_file(path)[0]["model"] == shown


# Texts of tokens


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
    column = TokenTexts(tokenizer).column(rows)
    assert [*map(len, column)] == [*map(len, rows)]
    assert ["".join(row) for row in column] == [tokenizer.decode(ids) for ids in rows]


def test_a_character_of_several_tokens_is_with_its_last_and_never_of_two_rows(tokenizer):
    first, second = tokenizer.encode("é")
    lost = "\N{REPLACEMENT CHARACTER}"
    expected = [[lost], [lost], ["", "é"], []]
    assert TokenTexts(tokenizer).column([[first], [second], [first, second], []]) == expected
