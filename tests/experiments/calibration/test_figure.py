"""Reliability: a column for each kind of variant, a row for each quantity."""

from experiments.calibration import figure as calibration_figure

from ...report.drawings import curves, legend


def row(variant, quantity, *bins):
    rows = [{"believed": x, "share": y, "standard_error": None, "number": n} for x, y, n in bins]
    number = sum(n for *_, n in bins)
    return {"variant": variant, "quantity": quantity, "num_points": number, "bins": rows}


def test_each_kind_of_variant_stands_beside_the_default(drawn):
    rows = [
        row("default", "plausibility", (0.1, 0.2, 300), (0.5, 0.9, 2)),  # too few to be drawn
        row("default", "truth_mass", (0.3, 0.4, 10)),
        row("elicitation: short", "plausibility", (0.2, 0.2, 10)),
        row("elicitation: short", "truth_mass", (0.9, 1.0, 10)),
        row("temperature: 2", "plausibility", (0.7, 0.6, 10)),
        row("temperature: 2", "truth_mass", (0.8, 0.7, 10)),
    ]
    figure = drawn(calibration_figure.draw, {"rows": rows})
    shown = [curves(axis) for axis in figure.axes]
    assert shown == [
        [[(0.1, 0.2)], [(0.2, 0.2)]],
        [[(0.1, 0.2)], [(0.7, 0.6)]],
        [[(0.3, 0.4)], [(0.9, 1.0)]],
        [[(0.3, 0.4)], [(0.8, 0.7)]],
    ]
    assert [axis.get_title(loc="left") for axis in figure.axes[:2]] == [
        "by elicitation",
        "by temperature",
    ]
    assert legend(figure) == ["default", "elicitation: short", "temperature: 2"]
