"""Rows of a batch on their way to the trainer."""

import pickle

import torch
from accelerate.utils import send_to_device

from barl_trl.trainer.baseline_trainer import Rows


def test_rows_without_tensors_are_not_walked_through():
    rows = Rows([{"prompt": "a", "candidates": ["1", "2"]}, {"prompt": "b", "candidates": ["3"]}])
    assert send_to_device(rows, torch.device("cpu"), non_blocking=True) is rows
    assert rows == [{"prompt": "a", "candidates": ["1", "2"]}, {"prompt": "b", "candidates": ["3"]}]
    assert pickle.loads(pickle.dumps(rows)) == rows  # the loader may have processes


def test_tensors_in_rows_go_to_the_device():
    rows = Rows([{"prompt": "a", "image": torch.zeros(2)}])
    sent = send_to_device(rows, torch.device("meta"), non_blocking=True)
    assert isinstance(sent, Rows) and sent[0]["prompt"] == "a"
    assert sent[0]["image"].device.type == "meta" and rows[0]["image"].device.type == "cpu"


def test_a_batch_without_rows():
    assert send_to_device(Rows([]), torch.device("cpu")) == []
