"""Devices by their cards: rates of arithmetic and memory, as ranges. Nothing here imports PyTorch.

``devices.yaml`` beside this file has the published numbers and, for devices that are not at hand,
what part of them is assumed to be reached. ``here`` is this machine, whose rates are measured
(:mod:`bench.roofline.here`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import BaseModel, ConfigDict, Field

from core.errors import UserError, nearest
from core.reading import Kind

HERE = "here"
CARDS = Path(__file__).with_name("devices.yaml")


class Span(NamedTuple):
    """A number with the range that it is expected in."""

    low: float
    likely: float
    high: float

    def plus(self, other: Span) -> Span:
        return Span(*(a + b for a, b in zip(self, other, strict=True)))

    def times(self, factor: float) -> Span:
        """``factor`` is not negative."""
        return Span(*(value * factor for value in self))


NOTHING = Span(0.0, 0.0, 0.0)


def total(spans: Iterable[Span]) -> Span:
    """The sum, with all of them low, or all high: they are off together."""
    summed = NOTHING
    for span in spans:
        summed = summed.plus(span)
    return summed


class Rates(NamedTuple):
    """One corner of a device's range.

    Attributes:
        peak: FLOP/s.
        bandwidth: (bytes that an operator moves, bytes a second), by size.
        functions: transcendental functions a second; infinite where they cost nothing beside bytes.
        launch: seconds of an operator beside its work.
        overlaps: whether launches go on while the device works.
    """

    peak: float
    bandwidth: tuple[tuple[float, float], ...]
    functions: float
    launch: float
    overlaps: bool = False

    def bytes_a_second(self, moved: float) -> float:
        """Straight lines between the sizes, in logarithms."""
        if moved <= self.bandwidth[0][0]:
            return self.bandwidth[0][1]
        for (size, rate), (larger, its_rate) in pairwise(self.bandwidth):
            if moved <= larger:
                part = math.log(moved / size) / math.log(larger / size)
                return rate * (its_rate / rate) ** part
        return self.bandwidth[-1][1]


class Card(BaseModel):
    """A device as its maker describes it."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    label: str
    source: str
    peak: dict[str, float]
    bandwidth: float = Field(gt=0)
    memory: float = Field(gt=0)


class Assumed(BaseModel):
    """What part of published rates is reached; the YAML file says why."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    fraction_of_peak: dict[str, Span]
    fraction_of_bandwidth: Span
    launch: Span
    stacked_launch: Span


class Device(NamedTuple):
    """A device to plan for.

    Attributes:
        corners: precision -> its rates at their best, as expected, and at their worst.
        memory: bytes.
        stacked_launch: what a launch of a stack takes, in times of one alone.
        assumed: whether its rates are assumptions, and were not measured.
    """

    name: str
    label: str
    source: str
    corners: Mapping[str, tuple[Rates, Rates, Rates]]
    memory: float
    stacked_launch: Span
    assumed: bool


class _File(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")
    devices: dict[str, Card]
    assumed: Assumed


@lru_cache
def _file(path: Path) -> _File:
    advice = "correct the entry, or put the committed file back"
    tree = Kind("table of devices", dict[str, Any], how=advice).read_yaml(path)
    return Kind("table of devices", _File, how=advice).typed(path, tree, strict=False)


def names() -> list[str]:
    """What ``device_like=`` can be."""
    return [*_file(CARDS).devices, HERE]


def checked(name: Any) -> str:
    """The name, if there is such a device.

    Raises:
        UserError: there is none.
    """
    if name not in names():
        hint = nearest(str(name), names())
        listing = "" if hint.startswith("valid") else f" (known: {', '.join(names())})"
        raise UserError(f"there is no device_like={name}: {hint}{listing}")
    return str(name)


def device_like(name: str) -> Device:
    """A device of the cards.

    Raises:
        UserError: there is none of this name, or it is ``here``, which is measured.
    """
    file = _file(CARDS)
    card, part = file.devices[checked(name)], file.assumed
    return Device(
        name,
        card.label,
        card.source,
        {precision: _corners(card, part, precision) for precision in card.peak},
        card.memory,
        part.stacked_launch,
        assumed=True,
    )


def _corners(card: Card, part: Assumed, precision: str) -> tuple[Rates, Rates, Rates]:
    """The best, the likely and the worst rates of a card. At its best all that helps is high
    together, and launches are hidden by the work."""
    peaks = part.fraction_of_peak[precision].times(card.peak[precision])
    # Where a card has no faster units for them, numbers of less precision are no slower.
    plain = part.fraction_of_peak["float32"].times(card.peak["float32"])
    peaks = Span(*map(max, peaks, plain))
    bandwidths = part.fraction_of_bandwidth.times(card.bandwidth)

    def corner(peak: float, bandwidth: float, launch: float, best: bool = False) -> Rates:
        return Rates(peak, ((1.0, bandwidth),), math.inf, launch, best)

    return (
        corner(peaks.high, bandwidths.high, part.launch.low, best=True),
        corner(peaks.likely, bandwidths.likely, part.launch.likely),
        corner(peaks.low, bandwidths.low, part.launch.high),
    )
