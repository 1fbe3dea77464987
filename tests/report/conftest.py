import json

import matplotlib.pyplot as plt
import pytest


@pytest.fixture
def drawn(tmp_path, monkeypatch):
    """Draws results from their file, and returns the figure as it was before it was closed."""

    def draw(function, results, **options):
        figures = []
        path = tmp_path / "results.json"
        path.write_text(json.dumps(results))
        with monkeypatch.context() as patched:
            patched.setattr(plt, "close", figures.append)
            function(path, tmp_path / "figure.png", **options)
        [figure] = figures
        plt.close(figure)
        assert plt.imread(tmp_path / "figure.png").shape[1] > 500
        return figure

    return draw
