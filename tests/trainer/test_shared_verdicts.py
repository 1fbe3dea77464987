"""What one process judges is known to all, so that no verdict differs between them."""

import json

import pytest

from ..distributed.launching import launch
from . import verdicts_worker
from .verdicts_worker import ANSWERS


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    """What each of two processes judged, merged, and knows in the end."""
    folder = tmp_path_factory.mktemp("both")
    launch("cpu/ddp.yaml", "tests.trainer.verdicts_worker", str(folder))
    return [json.loads((folder / f"{rank}.json").read_text()) for rank in range(2)]


def test_every_answer_is_judged_by_one_process_once(both):
    first, second = (process["judged"] for process in both)
    assert sorted(first) == [["1", "1"], ["2", "02"], ["3", "03"]]
    assert sorted(second) == [["2", "2"], ["3", "3"], ["4", "04"]]


def test_rewards_are_the_same_on_all_processes_though_they_judge_differently(both):
    right, wrong, no_answer, no_truth = 1.0, 0.0, 0.0, None
    expected = [right, right, wrong, right, wrong, right, no_answer, wrong, no_truth, no_truth]
    assert [process["rewards"] for process in both] == [expected, expected]


def test_every_group_is_merged_by_one_process_also_where_two_share_it(both):
    assert both[0]["merged"] == [["1", "1", "1"], ["3", "3", "03"], ["", "5", "5"]]
    assert both[1]["merged"] == [["2", "2", "02"], ["4", None, "04"]]


def test_all_processes_know_all_answers_and_hypotheses_in_the_order_of_the_groups(both):
    for process in both:
        assert process["answers"] == ANSWERS
        assert process["hypotheses"] == [["1"], ["2", "02"], ["3"], ["4", "04"], None]


def test_one_process_has_nobody_to_share_with(tmp_path):
    verdicts_worker.main(str(tmp_path))
    alone = json.loads((tmp_path / "0.json").read_text())
    assert alone["judged ahead"] == []
    assert alone["rewards"] == [1.0] * 6 + [0.0, 1.0, None, None]
    assert alone["hypotheses"] == [["1"], ["2"], ["3"], ["4"], None]
