"""What a process keeps of the memory that it frees."""

import subprocess
import sys

import pytest

from core.files import ROOT

# Blocks that are freed together, as a backward pass frees what a forward pass has kept.
ROUNDS_OF_BLOCKS = """
import resource
import torch
from bench.training.memory import keep_freed_memory
keep_freed_memory()
def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
def work():
    blocks = [torch.ones(2**20) for _ in range(16)]
for _ in range(3):
    work()
before = faults()
for _ in range(10):
    work()
print(faults() - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="a setting of glibc")
def test_freed_memory_is_not_mapped_again() -> None:
    """Ten times 64 MiB are 163,840 pages of 4 KiB, which glibc maps anew by default, unless
    something else happens to lie behind them."""
    words = [sys.executable, "-c", ROUNDS_OF_BLOCKS]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True)
    assert int(done.stdout) < 1000
