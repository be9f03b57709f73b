"""Jobs for a cluster whose GPUs are declared: what they see of them, and when they ran."""

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.config.limits import GPU_SHARE
from bench.executors.interface import Files
from core.progress import Report


@dataclass(frozen=True)
class Seen:
    """What one job saw.

    Attributes:
        gpus: CUDA_VISIBLE_DEVICES.
        share: the part of a GPU's memory that it may take.
        node: Ray's name of the node.
        begin, end: seconds since 1970.
    """

    gpus: str
    share: float
    node: str
    begin: float
    end: float


def look(seconds: float, report: Report) -> Seen:
    """Hold a place for so many seconds."""
    import ray

    begin = time.time()
    time.sleep(seconds)
    node = ray.get_runtime_context().get_node_id()
    gpus, share = os.environ.get("CUDA_VISIBLE_DEVICES", ""), float(os.environ[GPU_SHARE])
    return Seen(gpus, share, node, begin, time.time())


class NoPayload:
    """Nothing travels with a job but itself."""

    def found(self, job: Any) -> Any:
        return None

    def pack(self, job: Any) -> Files:
        return {}

    def data(self, job: Any) -> Mapping[str, str]:
        return {}

    def unpack(self, job: Any, folder: Path, places: Mapping[str, Path]) -> Any:
        return job

    def keep(self, job: Any, files: Files, present: frozenset[str] | None) -> None:
        pass
