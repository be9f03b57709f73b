"""Fractions of GPUs on a Ray cluster whose nodes declare more of them than there are here."""

import time
from collections import Counter
from collections.abc import Iterator

import pytest

from bench.config.settings import RaySettings
from bench.executors.cluster import Cluster
from core.errors import UserError
from tests.cluster.gpu_payload import NoPayload, Seen, look
from tests.cluster.nodes import Nodes, gpu_nodes
from tests.conftest import ROOT

pytestmark = pytest.mark.cluster

GPUS = 4  # two nodes with two each
HOLD = 2.0  # seconds that a job keeps its place: longer than Ray takes to place the next


@pytest.fixture(scope="module")
def nodes() -> Iterator[Nodes]:
    with gpu_nodes() as started:
        yield started


@pytest.fixture(autouse=True)
def token(nodes: Nodes, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN"):
        monkeypatch.setenv(name, nodes.environment[name])
    monkeypatch.setenv("PYTHONPATH", str(ROOT))


def cluster_of(nodes: Nodes, num_gpus: float, workers: int = 0) -> Cluster:
    settings = RaySettings(
        address=nodes.address, num_cpus=0, num_gpus=num_gpus, checkpoint_every=60
    )
    return Cluster(look, NoPayload(), settings, workers, code=[str(ROOT / "tests")])


def run(cluster: Cluster, jobs: int, seconds: float = HOLD) -> list[Seen]:
    for ticket in range(jobs):
        cluster.submit(ticket, seconds)
    return [cluster.wait().value for _ in range(jobs)]


def at_once(seen: list[Seen]) -> dict[tuple[str, str], int]:
    """By node and GPU: the most jobs that held it at one time."""
    most: Counter[tuple[str, str]] = Counter()
    for job in seen:
        device = (job.node, job.gpus)
        together = [
            other
            for other in seen
            if (other.node, other.gpus) == device and other.begin <= job.begin < other.end
        ]
        most[device] = max(most[device], len(together))
    return most


@pytest.mark.parametrize(("num_gpus", "room"), [(1, GPUS), (0.5, 2 * GPUS)])
def test_jobs_wait_for_their_part_of_a_gpu_and_see_no_other(
    nodes: Nodes, num_gpus: float, room: int
) -> None:
    with cluster_of(nodes, num_gpus) as cluster:
        assert cluster.slots == room
        seen = run(cluster, room + 2)  # two have to wait
    assert all(job.gpus in ("0", "1") for job in seen)
    assert {job.share for job in seen} == {num_gpus}
    assert max(at_once(seen).values()) <= round(1 / num_gpus)
    assert len({(job.node, job.gpus) for job in seen}) > 2, "one node did it all"


def test_more_than_a_node_has_is_one_sentence(nodes: Nodes) -> None:
    with pytest.raises(UserError, match=r"num_gpus=3, and no node .* 2 GPUs"), cluster_of(nodes, 3):
        pass


def test_the_jobs_of_a_node_that_dies_are_made_by_the_other(nodes: Nodes) -> None:
    with cluster_of(nodes, 1) as cluster:
        for ticket in range(GPUS):
            cluster.submit(ticket, 4 * HOLD)
        deadline = time.monotonic() + 60
        while len(nodes.at_work()) < GPUS and time.monotonic() < deadline:
            time.sleep(0.1)
        assert nodes.working(1), "the second node has no job"
        nodes.kill(1)
        seen = [cluster.wait().value for _ in range(GPUS)]
    assert len({job.node for job in seen}) == 1
    assert max(at_once(seen).values()) == 1
