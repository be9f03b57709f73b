"""A difference is told as it was seen, with the causes that it may have: no sentence names one that
a guest does not have as a fact."""

import itertools
import os
import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import bench
from bench.examination.examination import examine
from bench.examination.repeatability import examine_repeatability
from bench.training.unfit import UnfitModel
from models.specification import SequenceSpecification

SPECIFICATION = SequenceSpecification(maximum_length=48, vocabulary=13)
INPUTS = torch.randint(13, (8, 29), generator=torch.Generator().manual_seed(0))
CPU = torch.device("cpu")


class Odd(nn.Module):
    """Causal, but for what :meth:`odd` adds to each output: one number from 0 to 1."""

    def __init__(self, specification: SequenceSpecification) -> None:
        super().__init__()
        self.embedding = nn.Embedding(specification.vocabulary or 0, 8)
        self.read_out = nn.Linear(8, specification.output_size)

    def odd(self, inputs: Tensor) -> float | Tensor:
        return 0.0

    def forward(self, inputs: Tensor) -> Tensor:
        vectors = self.embedding(inputs).cumsum(1) / 10
        return self.read_out(vectors + self.odd(inputs))


class ReadsTheClock(Odd):
    def odd(self, inputs: Tensor) -> float:
        return time.perf_counter() % 1.0


class ReadsAnAddress(Odd):
    """Of its inputs, of which each call gets a copy of its own."""

    def odd(self, inputs: Tensor) -> float:
        return (inputs.data_ptr() // 16 % 1009) / 1009


class EveryOtherCall(Odd):
    """A clock that ticks with the calls: a call with other inputs between two with the same finds
    another number, and these find the same one."""

    ticks: Iterator[int] = itertools.count()

    def odd(self, inputs: Tensor) -> float:
        return float(next(self.ticks) % 2)


class OfTheProcess(Odd):
    def odd(self, inputs: Tensor) -> float:
        # Neighbouring numbers lie far apart, and only every 1,009th has the same.
        return (os.getpid() * 7919 % 1009) / 1009


class KnowsTheTotal(Odd):
    """A checksum of each whole sequence: that is a leak, and each call gives the same."""

    def odd(self, inputs: Tensor) -> Tensor:
        return (inputs.sum(1) % 17).view(-1, 1, 1) / 17


@pytest.mark.parametrize("kind", [ReadsTheClock, ReadsAnAddress, EveryOtherCall])
@pytest.mark.parametrize("trained", [False, True])
def test_outputs_that_differ_from_call_to_call_are_told_so(
    kind: type[nn.Module], trained: bool
) -> None:
    torch.manual_seed(0)
    with pytest.raises(UnfitModel) as refused:
        examine(kind(SPECIFICATION), SPECIFICATION, INPUTS, trained=trained)
    seen, _, causes = str(refused.value).partition("; possible causes: ")
    assert re.match(r"outputs of the model differ from call to call.*the same inputs", seen)
    assert not re.search("future|how long|batch|keeps", seen)
    for cause in ("keeps something between calls", "the time", "id, data_ptr", "checksum"):
        assert cause in causes


def test_what_other_inputs_change_is_a_leak_however_it_is_computed() -> None:
    torch.manual_seed(0)
    with pytest.raises(UnfitModel, match=r"^the model sees the future: other inputs from"):
        examine(KnowsTheTotal(SPECIFICATION), SPECIFICATION, INPUTS)


class Recurrent(Odd):
    def __init__(self, specification: SequenceSpecification, batch_first: bool = False) -> None:
        super().__init__(specification)
        self.mixer = nn.GRU(8, 8, batch_first=batch_first)

    def odd(self, inputs: Tensor) -> Tensor:
        return self.mixer(self.embedding(inputs))[0]


class WithMean(Odd):
    """Sees the other sequences of its batch by no layer that reads them along another axis."""

    def odd(self, inputs: Tensor) -> Tensor:
        return self.embedding(inputs).mean(0)


def test_a_layer_that_takes_the_batch_for_time_is_a_possible_cause() -> None:
    cause = "a possible cause: mixer (GRU) lacks batch_first=True"
    for kind, is_named in ((Recurrent, True), (WithMean, False)):
        torch.manual_seed(0)
        with pytest.raises(UnfitModel, match="depends on the other sequences of its") as refused:
            examine(kind(SPECIFICATION), SPECIFICATION, INPUTS)
        assert (cause in str(refused.value)) == is_named
        assert ("batch_first" in str(refused.value)) == is_named
    examine(Recurrent(SPECIFICATION, batch_first=True), SPECIFICATION, INPUTS)


def test_a_model_that_goes_on_otherwise_may_read_the_time() -> None:
    """It keeps nothing, so that no buffer would mend it."""
    ticks = itertools.chain([0] * 4, itertools.count())  # two first passes, two that train

    class LaterOn(Odd):
        def odd(self, inputs: Tensor) -> float:
            return float(next(ticks) % 5)

    def build() -> nn.Module:
        torch.manual_seed(0)
        return LaterOn(SPECIFICATION)

    with pytest.raises(UnfitModel) as refused:
        examine_repeatability(build, INPUTS, CPU)
    seen, _, causes = str(refused.value).partition("; possible causes: ")
    assert "gives other outputs than the one that made them" in seen
    assert "training changes state that is no tensor" in causes
    assert "the time or on a memory address" in causes


def test_a_number_of_the_process_is_among_the_causes(tmp_path: Path) -> None:
    target = f"{__name__}.{OfTheProcess.__name__}"
    few = {"training.steps": 2, "training.batch_size": 4, "training.warmup_steps": 1}
    record = bench.run("bigram", target, store=tmp_path, device="cpu", settings=few, quiet=True)
    assert record.outcome == "failed"
    assert record.cause is not None
    assert "when two processes build it" in record.cause
    assert re.search("possible causes.*the process or its machine", record.cause)
