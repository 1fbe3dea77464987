"""`examples/quickstart.ipynb`: short cells, small outputs, and it runs from top to bottom."""

import re

import nbformat
import pytest
from nbconvert.preprocessors import ExecutePreprocessor

from ..paths import ROOT

PATH = ROOT / "examples" / "quickstart.ipynb"
ACCURACY = re.compile(r"^(before|after) +([\d.]+) % +\[([\d.]+), ([\d.]+)\]$", re.MULTILINE)


@pytest.fixture(scope="module")
def notebook():
    return nbformat.read(PATH, as_version=4)


def printed(notebook):
    """What the code cells print and show, as text."""
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    shown = [output.get("data", {}).get("text/plain", "") for output in outputs]
    return "\n".join([*(output.get("text", "") for output in outputs), *shown])


def accuracies(notebook):
    """The accuracy before and after training, in %, each with its interval."""
    return {name: tuple(map(float, found)) for name, *found in ACCURACY.findall(printed(notebook))}


def test_cells_are_short(notebook):
    lengths = [len(cell.source.splitlines()) for cell in notebook.cells]
    assert max(lengths) <= 15


def test_a_reader_sees_small_outputs_of_a_run_from_top_to_bottom(notebook):
    assert PATH.stat().st_size <= 200_000
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in code] == [*range(1, len(code) + 1)]
    assert any("image/png" in out.get("data", {}) for cell in code for out in cell.outputs)
    assert set(accuracies(notebook)) == {"before", "after"}
    text = PATH.read_text()
    assert not re.search(r"/(tmp|home|root|work|Users)/", text)


@pytest.mark.slow
def test_it_trains_and_the_model_is_better_behind_it(notebook, tmp_path):
    fresh = nbformat.from_dict(notebook)
    for cell in fresh.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    execute = ExecutePreprocessor(timeout=1200, kernel_name="python3")
    execute.preprocess(fresh, {"metadata": {"path": tmp_path}})
    assert (tmp_path / "outputs" / "notebook" / "inspect" / "index.html").exists()
    found = accuracies(fresh)
    assert found["after"][1] > found["before"][0]  # the lower end
    assert "V(t)  w_0(t)  step" in printed(fresh)
