"""The figure of the paper's tree: the belief-dependent policy leaf by leaf, and the returns."""

from fractions import Fraction
from itertools import pairwise
from pathlib import Path

from matplotlib.patches import FancyArrowPatch

from ..json_files import read_json
from .styles import plt, save

_BACK = {"root": "back to the root", "parent": "back to the parent"}
_GREY, _BLACK = "0.65", "black"
_NODE_RADIUS = 12  # points


def draw(results_json: str | Path, png: str | Path) -> None:
    """Draw a row of trees for each way of going back, and the returns by depth beside them.

    Each tree shows the belief before the next leaf is tried, and the path to that leaf.

    Args:
        results_json: JSON file of what `barl_trl.synthetic.tree_gap.results` returned.
        png: PNG to write.
    """
    results = read_json(results_json)
    examples = results["examples"]
    columns = max(len(example["tries"]) for example in examples)
    widths = 2.75 * columns, 4.2
    figure = plt.figure(figsize=(sum(widths), 3.1 * len(examples)), layout="constrained")
    trees, chart = figure.subfigures(1, 2, width_ratios=widths, squeeze=False)[0]
    strips = trees.subfigures(len(examples), 1, squeeze=False)[:, 0]
    for row, example in zip(strips, examples, strict=True):
        row.suptitle(f"Going {_BACK[example['back']]}", fontsize=11, fontweight="bold")
        for axis, attempt in zip(row.subplots(1, columns), example["tries"], strict=False):
            _draw_tree(axis, example, attempt)
    trees.supxlabel(
        "The numbers are the belief: the probability that this leaf pays. Crossed out: excluded. "
        "Thick arrows lead to the next leaf, dashed ones back.",
        fontsize=9,
    )
    _draw_returns(chart.subplots(), results["trees"])
    save(figure, png, dpi=120)


def _draw_tree(axis, example, attempt):
    places = _places(example["children"], example["leaves"])
    for node, children in enumerate(example["children"]):
        for child in children:
            axis.plot(*zip(places[node], places[child], strict=True), color=_GREY, lw=1, zorder=1)
    firsts = {children[0] for children in example["children"] if children}
    for start, end in pairwise(attempt["path"]):
        down = end in example["children"][start]
        bend = 0 if down else -0.35 if start in firsts else 0.35  # away from the sibling's edge
        axis.add_patch(
            FancyArrowPatch(
                places[start],
                places[end],
                arrowstyle="-|>",
                mutation_scale=13,
                shrinkA=_NODE_RADIUS,
                shrinkB=_NODE_RADIUS,
                color=_BLACK,
                linewidth=2.2 if down else 1.2,
                linestyle="-" if down else (0, (3, 2)),
                connectionstyle=f"arc3,rad={bend}",
                zorder=2,
            )
        )
    believed = dict(zip(example["leaves"], attempt["belief"], strict=True))
    for node, (x, y) in enumerate(places):
        _draw_node(axis, x, y, f"$s_{{{node}}}$", believed.get(node))
    first, last = attempt["steps"]
    steps = f"step {first}" if first == last else f"steps {first}–{last}"
    axis.set_title(f"{steps}: reward {attempt['reward']}", fontsize=10)
    axis.set(xlim=(-0.6, len(example["leaves"]) - 0.4), ylim=(-0.65, places[0][1] + 0.3))
    axis.set_axis_off()


def _places(children, leaves):
    """Return the position of each node: leaves side by side, others above their children."""
    places = [(0.0, 0.0)] * len(children)
    for node in reversed(range(len(children))):
        if children[node]:
            (left, y), (right, _) = (places[child] for child in children[node])
            places[node] = ((left + right) / 2, y + 1)
        else:
            places[node] = (float(leaves.index(node)), 0.0)
    return places


def _draw_node(axis, x, y, name, belief):
    """Draw a node. A leaf is shaded by its belief, written below it; belief 0 is crossed out."""
    shade = str(1 - 0.75 * (belief or 0))
    axis.plot(x, y, "o", ms=2 * _NODE_RADIUS - 3, mfc=shade, mec=_BLACK, mew=1, zorder=3)
    color = "white" if (belief or 0) > 0.6 else _BLACK
    axis.text(x, y, name, ha="center", va="center", fontsize=10, color=color, zorder=4)
    if belief is not None:
        text = str(Fraction(belief).limit_denominator(1000))
        axis.text(x, y - 0.48, text, ha="center", va="center", fontsize=10)
    if belief == 0:
        axis.plot(x, y, "x", ms=2 * _NODE_RADIUS + 2, color="0.6", mew=1.6, zorder=3)


def _draw_returns(axis, trees):
    stochastic = "stochastic Markovian,\n"
    curves = [
        ("adaptive, either way", "root", "adaptive", "o-"),
        (stochastic + _BACK["root"], "root", "stochastic_markovian", "s--"),
        (f"{stochastic}{_BACK['parent']} (best found)", "parent", "stochastic_markovian", "^-."),
        ("Markovian, single pass\nor deterministic", "root", "single_pass_markovian", "v:"),
    ]
    for label, back, name, style in curves:
        points = [(tree["depth"], tree[name]) for tree in trees if tree["back"] == back]
        axis.plot(*zip(*points, strict=True), style, color=_BLACK, mfc="white", label=label)
    axis.set(xlabel="depth of the tree", ylabel="return", ylim=(0, 1.05))
    axis.set_xticks(sorted({tree["depth"] for tree in trees}))
    axis.set_title("Return within the steps\nthat the adaptive policy needs", fontsize=10)
    axis.grid(alpha=0.3)
    axis.legend(fontsize=8, loc="upper center", bbox_to_anchor=(0.5, -0.14), ncols=2, frameon=False)
