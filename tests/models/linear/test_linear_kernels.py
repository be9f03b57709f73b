"""Triton kernels behind the linear recurrence: equal to its loop, and nowhere but on CUDA.

Without a GPU ``nox -s kernels`` runs them by Triton's interpreter, which needs the same packages.
"""

import json
import os
from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from bench.records import provenance
from bench.training.numerics import set_numerics
from models.layers.linear_recurrence import linear_recurrence, recurrence_loop
from models.layers.recurrence import kernels
from models.layers.recurrence.kernels import by_kernel, fit
from models.layers.recurrence.writes import Writes
from tests.conftest import Command, told_by_a_process
from tests.models.linear.compiled import recorded
from tests.models.linear.interpreted import DEVICE, INTERPRETED, NO_GPU, RUNS, prepare

BATCH, HEADS, KEYS, VALUES = 2, 3, 16, 32
RULES = [(decay, strength) for strength in (0, 1, 2) for decay in ("none", "head", "channel")]
# A GPU has other sums than the loop; the interpreter rounds as the loop does.
NEAR = 1e-5 if INTERPRETED else 1e-3


def drawn(
    time: int, decay: str, strength: int, device: str = "cpu"
) -> tuple[Tensor, Writes, Tensor]:
    """Queries, writes with decays from weak to strong and strengths up to ``strength``, a state."""
    generator = torch.Generator().manual_seed(time + 7 * strength)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator).to(device).requires_grad_()

    channels = {"none": None, "head": (), "channel": (KEYS,)}[decay]
    decays = None
    if channels is not None:
        decays = functional.logsigmoid(3 * normal(BATCH, time, HEADS, *channels))
    strengths = strength * normal(BATCH, time, HEADS).sigmoid() if strength else None
    keys = functional.normalize(normal(BATCH, time, HEADS, KEYS), dim=-1)
    writes = Writes(keys, normal(BATCH, time, HEADS, VALUES), decays, strengths)
    state = normal(BATCH, HEADS, KEYS, VALUES)
    return normal(BATCH, time, HEADS, KEYS), writes, state


@pytest.mark.skipif(not RUNS, reason=NO_GPU)
@pytest.mark.parametrize(("decay", "strength"), RULES)
@pytest.mark.parametrize("time", [2, 37, 300])
def test_kernels_equal_the_loop_with_gradients(decay: str, strength: int, time: int) -> None:
    set_numerics(1)
    if INTERPRETED:
        prepare()
    queries, writes, state = drawn(time, decay, strength, DEVICE)
    assert INTERPRETED or fit(queries, writes)
    leaves = [x for x in (queries, *writes[:4], state) if x is not None]
    found = []
    for form in (by_kernel, recurrence_loop):
        outputs, last = form(queries, writes, state)
        total = outputs.square().sum() + last.square().sum()
        found.append([outputs, last, *torch.autograd.grad(total, leaves, retain_graph=True)])
    for ours, theirs in zip(*found, strict=True):
        assert (ours - theirs).abs().max() <= NEAR * theirs.abs().max()


@pytest.mark.skipif(not (RUNS and INTERPRETED), reason="the interpreter notes what is launched")
def test_kernels_compile_for_a_gpu_that_is_not_here(run_command: Command, tmp_path: Path) -> None:
    from models.layers.recurrence.leaky_kernel import scan_by_kernel

    prepare()

    def compute() -> None:
        for decay, strength in RULES:
            queries, writes, state = drawn(37, decay, strength)
            outputs, last = by_kernel(queries, writes, state)
            (outputs.sum() + last.sum()).backward()
        for width in (16, 64):
            for backwards in (False, True):
                scan_by_kernel(torch.zeros(1, 2, 70, width), torch.ones(2), backwards)

    launches = recorded(compute)
    broken = {**launches[-1], "arguments": launches[-1]["arguments"] | {"x": {"type": "*i1"}}}
    file = tmp_path / "launches.json"
    file.write_text(json.dumps([*launches, broken]))
    own = {"TRITON_INTERPRET": "0", "TRITON_CACHE_DIR": str(tmp_path)}
    words = ("-m", "tests.models.linear.compiled", str(file))
    finished = run_command(*words, env={**own, "PYTHONPATH": os.environ["PYTHONPATH"]})
    assert finished.returncode == 0, finished.stderr
    (failure,) = json.loads(finished.stdout.splitlines()[-1])
    assert "_scan" in failure  # the broken one, whose products have no such type
    assert len(launches) > 40


def test_what_no_kernel_fits_goes_through_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "installed", lambda: True)
    queries, writes, state = drawn(9, "head", 1)
    assert not fit(queries, writes)  # on a CPU
    found, _ = linear_recurrence(queries, writes, state)
    assert torch.allclose(found, recurrence_loop(queries, writes, state)[0], atol=1e-5)


def test_a_model_on_a_cpu_imports_no_kernel() -> None:
    script = """
import json, sys, torch
from models.linear.gla import GLA
from models.memory_mosaic import MemoryMosaic
from models.specification import SequenceSpecification
for kind in (GLA, MemoryMosaic):
    model = kind(SequenceSpecification(8, vocabulary=5), width=8, layers=1)
    model(torch.zeros(1, 8, dtype=torch.int64)).sum().backward()
print(json.dumps([name for name in sys.modules if "leaky_kernel" in name or name == "fla"]))
"""
    assert told_by_a_process(script) == []


def test_records_of_a_gpu_hold_the_version_of_its_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    usual = provenance.library_versions()
    monkeypatch.setattr(provenance, "KERNELS", ("pytest", "not-installed"))
    assert provenance.library_versions("cpu") == usual
    assert provenance.library_versions("NVIDIA H200") == usual | {"pytest": pytest.__version__}
