"""Fifty guests, drawn by this test, run by the engine and put on a board: no dishonest one has a
score to be ranked by, no honest one is refused, and each cause names the fault that was put in."""

import random
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import bench
from bench.records.schema import RunRecord
from leaderboards.tables.builder import build_board

GENERATED = "tests.bench.examination.generated"
DRAWING = "tests.bench.training.drawing_guests"
FEW_STEPS = {"training.steps": 2, "training.batch_size": 4, "training.warmup_steps": 1}
OPENING = {"training.steps": 25, "training.batch_size": 4, "training.lr": 1.0}  # of gates
COUNT = 50


@dataclass(frozen=True)
class Drawn:
    """One guest.

    Attributes:
        sentence: pattern of the cause that names its fault; None: it is honest.
        settings: arguments of its constructor.
        trained: whether its fault can be seen only after some training.
    """

    kind: str
    sentence: str | None = None
    settings: dict[str, Any] = field(default_factory=dict)
    trained: bool = False
    module: str = GENERATED
    task: str = "bigram"  # characters, 64 of them in training and in evaluation

    @property
    def name(self) -> str:
        return " ".join([self.kind, *(f"{key}={value}" for key, value in self.settings.items())])

    def run(self, store: Path) -> RunRecord:
        settings = OPENING if self.trained else FEW_STEPS
        own = {f"models.{key}": value for key, value in self.settings.items()}
        return bench.run(
            self.task,
            f"{self.module}.{self.kind}",
            store=store,
            device="cpu",
            settings={**settings, "training.warmup_steps": 1, **own},
            quiet=True,
        )


FUTURE = r"the model sees the future(?! with its trained weights)"
FUTURE_OPENS = FUTURE + r"( in training mode)?, once its parameters are moved"
FUTURE_LATER = r"the model sees the future with its trained weights"
BATCH = r"depends on the other sequences of its batch"
LENGTH = r"the model sees how long a sequence is"
KEPT = r"differ from call to call.*it keeps something between calls"
NUMBERS = r"gave no numbers \(NaN or infinity\)"
NO_SEED = r"built twice from one seed.* it depends on what no seed reaches"
LOST = r"training changes .* but no checkpoint keeps it"

Draw = Callable[[random.Random], Drawn]


def _block(draw: random.Random) -> Drawn:
    block = draw.randint(2, 16)
    settings = {"block": block, "offset": draw.randrange(block), "graph": draw.random() < 0.5}
    return Drawn("InBlocks", FUTURE, {**settings, "strength": 10 ** draw.uniform(-2, 0)})


def _late(draw: random.Random) -> Drawn:
    return Drawn("Late", FUTURE, {"start": draw.uniform(0.3, 0.95), "reach": draw.randint(1, 2)})


def _gate(draw: random.Random) -> Drawn:
    gate = draw.choice(["scalar", "channels", "matrix"])
    return Drawn("Gated", FUTURE_OPENS, {"gate": gate, "reach": draw.randint(1, 4)})


def _opening(draw: random.Random) -> Drawn:
    settings = {"threshold": draw.uniform(0.15, 0.3), "reach": draw.randint(1, 3)}
    return Drawn("Opening", FUTURE_LATER, settings, trained=True)


def _statistic(draw: random.Random) -> Drawn:
    return Drawn("OfAll", FUTURE, {"statistic": draw.choice(["mean", "std", "norm", "largest"])})


def _mode(draw: random.Random) -> Drawn:
    training = draw.random() < 0.5
    sentence = FUTURE + (" in training mode" if training else ": other inputs")
    return Drawn("InOneMode", sentence, {"training": training, "reach": draw.randint(1, 5)})


def _across(draw: random.Random) -> Drawn:
    how = draw.choice(["roll", "mean", "norm"])
    return Drawn("Across", BATCH, {"how": how, "step": draw.choice([1, -1, 2])})


def _length(draw: random.Random) -> Drawn:
    return Drawn("KnowsLength", LENGTH, {"block": draw.choice([0, 5, 7, 9])})


def _kept(draw: random.Random) -> Drawn:
    # What is kept in training alone is state that the next batch of a training would see.
    place, mode = draw.choice(
        [("attribute", "both"), ("attribute", "eval"), ("buffer", "both"), ("buffer", "eval")]
    )
    return Drawn("Keeps", f"{KEPT}|{LOST}", {"place": place, "mode": mode})


def _numbers(draw: random.Random) -> Drawn:
    value = draw.choice(["nan", "inf"])
    settings = {"position": draw.randint(8, 31), "value": value}  # trained on 8, measured on 32
    return Drawn("NoNumbers", NUMBERS, settings, task="state_tracking")


def _no_seed(draw: random.Random) -> Drawn:
    kind = draw.choice(["Urandom", "Uuid", "ClassCounter", "DefaultRng", "PlainNumber"])
    return Drawn(kind, NO_SEED.replace(" from one seed", ".*from one seed"), module=DRAWING)


def _lost(draw: random.Random) -> Drawn:
    return Drawn("Lost", LOST, {"place": draw.choice(["buffer", "attribute", "count"])})


def _memory(draw: random.Random) -> Drawn:
    how, sentence = draw.choice(
        [("views", "two parameters that lie in one memory"), ("expanded", "is an expanded tensor")]
    )
    return Drawn("Overlapping", sentence, {"how": how})


DISHONEST: list[Draw] = [
    _block,
    _late,
    _gate,
    _opening,
    _statistic,
    _mode,
    _across,
    _length,
    _kept,
    _numbers,
    _no_seed,
    _lost,
    _memory,
]
HONEST: list[Draw] = [
    lambda draw: Drawn("Guest", settings={"width": draw.randint(3, 12)}),
    lambda draw: Drawn("Convolved", settings={"decay": draw.uniform(1, 100)}),
    lambda draw: Drawn("Scaled", settings={"size": 10 ** draw.uniform(-8, 5)}),
    lambda draw: Drawn(
        "Dropping", settings={"share": draw.uniform(0.1, 0.9), "positions": draw.random() < 0.5}
    ),
    lambda draw: Drawn("Tied", settings={"layers": draw.randint(1, 4)}),
    lambda draw: Drawn("ZeroBranch", settings={"reach": draw.randint(0, 5)}),
    lambda draw: Drawn("Blocks", settings={"block": draw.randint(2, 16)}),
    lambda draw: Drawn("Normalised", settings={"groups": draw.choice([1, 2, 4])}),
    lambda draw: Drawn("InPlace", settings={"largest": draw.randint(5, 60)}),
    lambda draw: Drawn("NoNumbers", settings={"position": draw.randint(32, 99)}, task=RECALL),
]
RECALL = "multi_query_recall"  # 32 positions at most, so that those are numbers


def drawn() -> Iterator[Drawn]:
    """Fifty, in turn of each dishonest and each honest kind, each only once."""
    draw = random.Random("fifty guests")
    seen: set[str] = set()
    shares = [(DISHONEST, 32), (HONEST, COUNT - 32)]
    for kinds, count in shares:
        number = 0
        while number < count:
            guest = kinds[number % len(kinds)](draw)
            if guest.name not in seen:
                seen.add(guest.name)
                number += 1
                yield guest


GUESTS = [*drawn()]


def test_the_guests_are_of_ten_kinds_and_of_both_sorts() -> None:
    assert len({guest.name for guest in GUESTS}) == COUNT
    assert len({guest.kind for guest in GUESTS if guest.sentence}) >= 10
    assert len({guest.kind for guest in GUESTS if not guest.sentence}) >= 10


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("fifty")


@pytest.mark.parametrize("guest", GUESTS, ids=lambda guest: guest.name)
def test_a_guest_is_what_it_is(guest: Drawn, store: Path) -> None:
    record = guest.run(store)
    (row,) = [
        row
        for row in build_board([], own=[record]).rows
        if row.headline and row.label == guest.kind
    ]
    if guest.sentence is None:
        assert (record.outcome, record.cause) == ("ok", None)
        assert record.examination is not None
        assert record.headline.value is not None
        assert row.mean == record.headline.value
        return
    assert record.outcome == "failed"
    assert re.search(guest.sentence, str(record.cause)), record.cause
    assert "\n" not in str(record.cause)
    assert record.metrics == {}
    assert (row.mean, row.rank_best, row.rank_worst) == (None, None, None)
