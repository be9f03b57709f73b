"""What a stranger's model carries from position to position is measured, not believed."""

import time
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import bench
from bench.records.schema import RunRecord
from bench.runs.carried_state import carried_bytes, examine_state
from bench.training.unfit import UnfitModel
from models.specification import SequenceSpecification

LONGEST, WIDTH, STEPS = 24, 8, 64
SPECIFICATION = SequenceSpecification(maximum_length=LONGEST, vocabulary=13)
INPUTS = torch.randint(13, (4, 11), generator=torch.Generator().manual_seed(0))
FEW = {"training.steps": 2, "training.batch_size": 4, "training.warmup_steps": 1}


class Recurrent(nn.Module):
    """A GRU with one state of WIDTH numbers, which declares ``declared`` bytes."""

    def __init__(self, specification: SequenceSpecification, declared: int = 4 * WIDTH) -> None:
        super().__init__()
        self.declared = declared
        self.embedding = nn.Embedding(specification.vocabulary or 0, WIDTH)
        self.cell = nn.GRU(WIDTH, WIDTH, batch_first=True)
        self.out = nn.Linear(WIDTH, specification.output_size)

    def forward(self, inputs: Tensor) -> Tensor:
        return self.out(self.cell(self.embedding(inputs))[0])

    def step(self, inputs: Tensor, state: Any = None) -> tuple[Tensor, Any]:
        outputs, state = self.cell(self.embedding(inputs)[:, None], state)
        return self.out(outputs[:, 0]), state

    def state_bytes(self, length: int) -> int:
        return self.declared


class Hides(Recurrent):
    """Hands most of its state on in ``hidden_by`` beside a tensor of one number."""

    def __init__(self, specification: SequenceSpecification, hide: Any, show: Any) -> None:
        super().__init__(specification, declared=4)
        self.hide, self.show = hide, show

    def step(self, inputs: Tensor, state: Any = None) -> tuple[Tensor, Any]:
        shown = None if state is None else self.show(state)
        outputs, following = super().step(inputs, shown)
        return outputs, self.hide(following.detach())


def riding(state: Tensor) -> Tensor:
    seen = torch.zeros(1)
    seen.rest = state  # type: ignore[attr-defined]
    return seen


HIDDEN = {
    "an array": (lambda s: (s[..., :1], s.numpy()), lambda s: torch.from_numpy(s[1])),
    "floats": (lambda s: (s[..., :1], s.tolist()), lambda s: torch.tensor(s[1])),
    "a function": (lambda s: (s[..., :1].clone(), lambda: s), lambda s: s[1]()),
    "an attribute of a tensor": (riding, lambda s: s.rest),
    "a view of more": (
        lambda s: s[..., :1],
        lambda s: s.as_strided((1, s.shape[1], WIDTH), (WIDTH * s.shape[1], WIDTH, 1), 0),
    ),
}


class Keyed(Recurrent):
    """Keeps its states under numbers, and hands on the number."""

    def __init__(self, specification: SequenceSpecification) -> None:
        super().__init__(specification, declared=8)
        self.kept: list[Tensor] = []

    def step(self, inputs: Tensor, state: Any = None) -> tuple[Tensor, Any]:
        if state is None:
            state = torch.tensor(len(self.kept))
            self.kept.append(torch.zeros(1, len(inputs), WIDTH))
        outputs, self.kept[int(state)] = super().step(inputs, self.kept[int(state)])
        return outputs, state


class WithoutStep(nn.Module):
    """The same, which nobody can ask for its state."""

    def __init__(self, specification: SequenceSpecification) -> None:
        super().__init__()
        self.net = Recurrent(specification)

    def forward(self, inputs: Tensor) -> Tensor:
        return self.net(inputs)

    def state_bytes(self, length: int) -> int:
        return 4


class KeepsAll(Recurrent):
    """Runs over all that it has seen: its state grows by a token a position."""

    def step(self, inputs: Tensor, state: Any = None) -> tuple[Tensor, Any]:
        seen = inputs[:, None] if state is None else torch.cat([state, inputs[:, None]], 1)
        return self(seen)[:, -1], seen

    def state_bytes(self, length: int) -> int:
        return self.declared * length


class HidesItsState(Recurrent):
    """It keeps its state in itself, and returns a small one."""

    kept: Any = None

    def step(self, inputs: Tensor, state: Any = None) -> tuple[Tensor, Any]:
        outputs, self.kept = super().step(inputs, None if state is None else self.kept)
        return outputs, torch.zeros(1)


class Slow(Recurrent):
    def step(self, inputs: Tensor, state: Any = None) -> tuple[Tensor, Any]:
        raise NotImplementedError("one day")


def measured(kind: type[nn.Module], *declared: int, steps: int = 2 * LONGEST) -> bool:
    torch.manual_seed(0)
    return examine_state(kind(SPECIFICATION, *declared), INPUTS, LONGEST, steps)


@pytest.mark.parametrize(("kind", "declared"), [(Recurrent, 4 * WIDTH), (KeepsAll, 4)])
def test_a_true_number_is_measured(kind: type[nn.Module], declared: int) -> None:
    assert measured(kind, declared)


@pytest.mark.parametrize(
    ("kind", "declared", "held"), [(Recurrent, 4, 4 * WIDTH), (KeepsAll, 2, 4 * LONGEST)]
)
def test_a_smaller_number_than_is_carried_is_refused(
    kind: type[nn.Module], declared: int, held: int
) -> None:
    with pytest.raises(UnfitModel) as refused:
        measured(kind, declared)
    said = declared * (LONGEST if kind is KeepsAll else 1)
    assert f"state_bytes({LONGEST}) says that a sequence keeps {said} bytes" in str(refused.value)
    assert f"after {LONGEST} positions holds {held} " in str(refused.value)


def test_what_cannot_be_measured_stays_declared() -> None:
    assert not measured(WithoutStep)
    assert not measured(HidesItsState, 4)
    assert not measured(Slow)


def test_fewer_steps_measure_as_far_as_they_come_on_any_machine() -> None:
    assert not measured(Recurrent, 4 * WIDTH, steps=2 * LONGEST - 1)
    with pytest.raises(UnfitModel, match=r"after 23 positions holds 32 "):
        measured(Recurrent, 4, steps=2 * LONGEST - 1)

    class Sleeps(Recurrent):
        def step(self, inputs: Tensor, state: Any = None) -> tuple[Tensor, Any]:
            time.sleep(1.5 / (2 * LONGEST))
            return super().step(inputs, state)

    assert measured(Sleeps, 4 * WIDTH)


def test_every_tensor_of_a_state_counts_once_and_as_float32() -> None:
    @dataclass
    class Slotted:
        __slots__ = ("values",)
        values: Tensor

    ten, weights = torch.zeros(10), nn.Linear(3, 5)
    assert carried_bytes(ten) == 40
    assert carried_bytes([ten, {"again": ten}, ten[2:6]]) == 40
    assert carried_bytes(torch.zeros(1, 10).expand(6, 10)) == 40
    assert carried_bytes(torch.zeros(10, dtype=torch.float64)) == 40
    assert carried_bytes(torch.zeros(10, dtype=torch.float16)) == 20
    assert carried_bytes(torch.zeros(10, dtype=torch.complex64)) == 80
    assert carried_bytes((Slotted(ten), deque([torch.zeros(3)]))) == 52
    assert carried_bytes(SimpleNamespace(a=ten, b=SimpleNamespace(c=torch.zeros(2)))) == 48
    assert carried_bytes((ten, weights.weight.view(-1)), weights.parameters()) == 40
    assert carried_bytes(("no", 3, None)) == 0
    cycle: list[Any] = [ten]
    cycle.append(cycle)
    assert carried_bytes(cycle) == 40


def test_a_record_says_whether_its_state_was_measured(tmp_path: Path) -> None:
    def run(kind: str, **settings: int) -> RunRecord:
        own = {f"models.{key}": value for key, value in settings.items()}
        target = f"{__name__}.{kind}"
        return bench.run(
            "bigram", target, store=tmp_path, device="cpu", settings={**FEW, **own}, quiet=True
        )

    honest, unknown, small = run("Recurrent"), run("WithoutStep"), run("Recurrent", declared=4)
    assert honest.examination is not None
    assert unknown.examination is not None
    assert "state bytes" in honest.examination.before
    assert "state bytes" not in unknown.examination.before
    assert (honest.outcome, unknown.outcome, small.outcome) == ("ok", "ok", "failed")
    assert small.cause is not None
    assert small.cause.startswith("state_bytes(64) says that a sequence keeps 4 bytes")


@pytest.mark.parametrize("way", HIDDEN)
def test_what_is_carried_in_no_tensor_is_not_measured(way: str) -> None:
    model = Hides(SPECIFICATION, *HIDDEN[way])
    assert not examine_state(model, INPUTS, LONGEST, STEPS)


def test_what_a_model_keeps_under_a_number_is_not_measured() -> None:
    assert not examine_state(Keyed(SPECIFICATION), INPUTS, LONGEST, STEPS)
    assert examine_state(Recurrent(SPECIFICATION), INPUTS, LONGEST, STEPS)


class Appends(Recurrent):
    """Keeps every vector in a list that a step adds to in place, as caches of attention do."""

    def forward(self, inputs: Tensor) -> Tensor:
        vectors = self.embedding(inputs)
        counts = torch.arange(1, inputs.shape[1] + 1)
        return self.out(vectors.cumsum(1) / counts[:, None])

    def step(self, inputs: Tensor, state: Any = None) -> tuple[Tensor, Any]:
        state = [] if state is None else state
        state.append(self.embedding(inputs))
        return self.out(torch.stack(state).mean(0)), state

    def state_bytes(self, length: int) -> int:
        return 4 * WIDTH * length


def test_a_state_that_steps_add_to_in_place_is_counted_before_another_step() -> None:
    short = 4  # where one position more is a quarter more
    assert examine_state(Appends(SPECIFICATION), INPUTS, short, 2 * short)


def test_what_cannot_be_copied_does_not_hide_what_can_be_counted() -> None:
    model = Hides(SPECIFICATION, lambda s: (s, lambda: None), lambda s: s[0])
    with pytest.raises(UnfitModel, match="state_bytes"):
        examine_state(model, INPUTS, LONGEST, STEPS)
