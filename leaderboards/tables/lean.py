"""What a short process spares itself: pandas, and an allocator and a collector for long ones."""

from __future__ import annotations

import gc
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from types import ModuleType


class _NotThere(MetaPathFinder):
    """Finds no pandas, as where it is not installed."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> None:
        if name == "pandas":
            raise ModuleNotFoundError(f"no {name} for pyarrow in this process", name=name)


def be_lean() -> None:
    """Let pyarrow find no pandas, and take memory from the system.

    It looks for pandas once in a process, at its first array, to know what a data frame is; loading
    it takes longer than adding a record to a board. Whoever imports pandas himself afterwards gets
    it, but cannot turn tables into data frames. Its own allocator asks the kernel for more pages
    than one pass over a task's tables needs, which costs as much again. And what is made of a task
    lives until it is written, so that a search for garbage finds none.
    """
    import pyarrow as pa

    gc.set_threshold(20_000, 20, 100)
    pa.set_memory_pool(pa.system_memory_pool())
    finder = _NotThere()
    sys.meta_path.insert(0, finder)
    try:
        pa.array([0])
    finally:
        sys.meta_path.remove(finder)
