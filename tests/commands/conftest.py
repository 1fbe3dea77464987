import pytest

from barl_trl.synthetic.search import TINY_MODEL_DIR, search_rows


@pytest.fixture
def search_recipe(recipe, write):
    """The demo's model on problems of a file, and held-out ones."""
    write_file, files = write, {}

    def write(**settings):
        for name in ("train", "held_out"):
            rows = search_rows(11, seed=5, held_out=name == "held_out")
            pairs = [{"problem": r["prompt"].strip(), "answer": r["solution"]} for r in rows]
            files[name] = write_file(f"{name}.jsonl", *pairs)
        model = {"model_name_or_path": str(TINY_MODEL_DIR), "prompt_template": "{problem}\n"}
        return recipe(**model, dataset_name=files["train"], max_completion_length=64, **settings)

    return write
