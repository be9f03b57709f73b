"""The pause of Python's collector ends with its block, or where it is told to."""

import gc
from collections.abc import Iterator

import pytest

from core.collector import collector_paused, resume_collector


@pytest.fixture(autouse=True)
def collecting() -> Iterator[None]:
    """The collector as the other tests have it."""
    yield
    gc.enable()


def test_a_pause_ends_with_its_block_whatever_happens() -> None:
    with pytest.raises(KeyError), collector_paused():
        _fail_while_paused()
    assert gc.isenabled()


def _fail_while_paused() -> None:
    assert not gc.isenabled()
    raise KeyError


def test_a_pause_in_a_pause_does_not_end_it() -> None:
    gc.disable()
    with collector_paused():
        pass
    assert not gc.isenabled()


def test_a_pause_ends_early_without_a_search_through_what_was_made() -> None:
    searches: list[int] = []

    def note(phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            searches.append(info["generation"])

    with collector_paused():
        kept = [[] for _ in range(100_000)]
        gc.callbacks.append(note)
        try:
            resume_collector()
            assert gc.isenabled()
            assert not searches
        finally:
            gc.callbacks.remove(note)
    assert len(kept) == 100_000
