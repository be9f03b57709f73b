"""How much memory there is, where a control group allows less than the machine has."""

import os
from pathlib import Path

import pytest

from bench.config import limits

MACHINE = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


@pytest.mark.parametrize(
    ("own", "files", "allowed"),
    [
        ("0::/job/step", {"job/memory.max": "5000", "job/step/memory.max": "max"}, 5000),
        ("0::/", {"memory.max": "7000"}, 7000),
        ("0::/job", {"job/memory.max": "max"}, MACHINE),
        (
            "9:cpu:/\n4:memory:/job",
            {"memory/job/memory.limit_in_bytes": "3000", "job/memory.max": "1"},
            3000,
        ),
        ("4:memory:/", {"memory/memory.limit_in_bytes": str(2**63 - 4096)}, MACHINE),
    ],
)
def test_a_control_group_bounds_the_memory(
    own: str, files: dict[str, str], allowed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, text in {"self/cgroup": own, **files}.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text + "\n")
    monkeypatch.setattr(limits, "PROC", tmp_path)
    monkeypatch.setattr(limits, "CONTROL_GROUPS", tmp_path)
    assert limits.memory_here() == allowed


def test_a_system_without_control_groups_has_its_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "PROC", tmp_path)
    assert limits.memory_here() == MACHINE
