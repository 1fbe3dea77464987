import pytest

from barl_trl.graders.processes import ProcessPool


@pytest.fixture(scope="session")
def pool():
    """Shared, since its processes take a second to start; a comparison has 1 s of CPU time."""
    pool = ProcessPool(size=1, cpu_seconds=1, wall_seconds=60)
    yield pool
    pool.close()
