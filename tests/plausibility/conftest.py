import pytest
import torch
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard


@pytest.fixture
def one_process(tmp_path):
    """A group of this process alone."""
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1
    )
    yield
    torch.distributed.destroy_process_group()


@pytest.fixture
def sharded(model, one_process):
    """The model with parameters that are gathered for every forward."""
    return fully_shard(model, mesh=init_device_mesh("cpu", (1,)))
