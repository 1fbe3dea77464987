"""Two processes weigh, log and record what one does, and know the same verdicts."""

import json

import numpy as np
import pytest

from barl_trl.trainer.records import FOLDER, read_records

from ..distributed.launching import launch
from . import by_hand, credit_worker
from .test_recorder import assert_logged, expected


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Of two processes, and of one that did it all."""
    two, one = (tmp_path_factory.mktemp(name) for name in ("two", "one"))
    launch("cpu/ddp.yaml", "tests.trainer.credit_worker", str(two))
    credit_worker.main(str(one))
    return two, one


@pytest.fixture
def found(folders):
    """What both processes found, and what one did."""
    two, alone = folders
    paths = two / "0.json", two / "1.json", alone / "0.json"
    first, second, one = (json.loads(path.read_text()) for path in paths)
    return [first, second], one


def close_to(value):
    """A value whose numbers are those of others, but for rounding."""
    if isinstance(value, list):
        return [*map(close_to, value)]
    return round(value, 4) + 0.0 if isinstance(value, float) else value


@pytest.mark.parametrize("credit", credit_worker.CREDITS)
def test_two_processes_weigh_log_and_record_as_one_does(folders, found, credit):
    both, one = found
    weights = one["weights"][credit]
    assert len({len(row) for row in weights}) > 6, "ragged"
    is_judged = [credit == "rloo"] * 4  # of those without a truth
    assert [any(row) for row in weights] == [True] * 6 + [False] + [True] + is_judged
    by_hand.assert_equal([row for two in both for row in two["weights"][credit]], weights)
    records, alone = ([*read_records(folder / credit / FOLDER)] for folder in folders)
    logged, second = (two["metrics"][credit] for two in both)
    assert logged == second
    assert_logged(logged, expected(records, credit))
    own = one["metrics"][credit]
    timeless = [name for name in own if "scoring_" not in name]  # a shared prompt is fed by both
    assert [logged[name] for name in timeless] == pytest.approx([*map(own.get, timeless)])
    assert [record["rollout"] for record in records] == [*range(12)]
    for record, want in zip(records, alone, strict=True):
        # a first state that a group shares is fed once on each process
        tokens = record.pop("scored_tokens"), want.pop("scored_tokens")
        assert tokens[0] == tokens[1] or (tokens[0] > tokens[1] and record["rollout"] == 6)
        for name, value in record.items():
            np.testing.assert_equal(close_to(value), close_to(want[name]))


def test_every_answer_is_judged_by_one_process_once_and_known_to_all(found):
    both, one = found
    first, second = (two["verdicts"]["judged"] for two in both)
    assert sorted(first) == [["1", "1"], ["2", "02"], ["3", "03"]]
    assert sorted(second) == [["2", "2"], ["3", "3"], ["4", "04"]]
    right, wrong, no_answer, no_truth = 1.0, 0.0, 0.0, None
    rewards = [right, right, wrong, right, wrong, right, no_answer, wrong, no_truth, no_truth]
    for known in (two["verdicts"] for two in both):
        assert known["rewards"] == rewards
        assert known["answers"] == credit_worker.ANSWERS
        assert known["hypotheses"] == [["1"], ["2", "02"], ["3"], ["4", "04"], None]
    alone = one["verdicts"]
    assert alone["judged ahead"] == []  # nobody to share with
    assert alone["rewards"] == [1.0] * 6 + [0.0, 1.0, None, None]
    assert alone["hypotheses"] == [["1"], ["2"], ["3"], ["4"], None]


def test_agents_whose_group_straddles_two_processes_and_their_benchmarks(found):
    both, one = found
    weights = [row for two in both for row in two["weights"]["agents"]]
    by_hand.assert_equal(weights, one["weights"]["agents"], atol=1e-4)
    tokens = one["metrics"]["agents"]["eval_games/mean_tokens"]
    for metrics in (own["metrics"]["agents"] for own in (*both, one)):
        # the answers are 0, 1, ..., 6, 0, ..., 3, the truths four 3, four 5, 6
        assert metrics["eval_games/accuracy"] == pytest.approx(2 / 11)
        assert metrics["eval_games/mean_tokens"] == tokens


def test_text_episodes_that_one_process_plays_longer(found):
    both, one = found
    weights = [row for two in both for row in two["weights"]["text"]]
    by_hand.assert_equal(weights, one["weights"]["text"], atol=1e-6)
    metrics = [own["metrics"]["text"] for own in (*both, one)]
    assert [own["environment_errors"] for own in metrics] == [[0.25]] * 3
    heard = [["7"], ["7"]], [["3", "4", "7"], ["error"]]
    assert [own["heard"] for own in metrics] == [*heard, heard[0] + heard[1]]
