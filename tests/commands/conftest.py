import json

import pytest

from barl_trl.synthetic.search import TINY_MODEL_DIR, search_rows


@pytest.fixture
def search_recipe(tmp_path, recipe):
    """The demo's model on problems of a file, and held-out ones."""

    def write(**settings):
        for name, held_out in {"train": False, "held_out": True}.items():
            rows = [
                {"problem": row["prompt"].strip(), "answer": row["solution"], "source": "search"}
                for row in search_rows(11, seed=5, held_out=held_out)
            ]
            (tmp_path / f"{name}.jsonl").write_text("\n".join(map(json.dumps, rows)))
        return recipe(
            model_name_or_path=str(TINY_MODEL_DIR),
            prompt_template="{problem}\n",
            dataset_name=str(tmp_path / "train.jsonl"),
            max_completion_length=64,
            **settings,
        )

    return write
