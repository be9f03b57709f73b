"""How long a plan takes on several devices, from its runs alone.

A chain has stages; a stage starts when all runs of the one before it have ended. In a sweep each
model is a chain: its trials, then its final runs. With work W, all runs one after the other, and
critical path C, the longest run of every stage of the longest chain, D devices that are never idle
while a run could start take at least max(C, W/D), and at most C + (W − C)/D (Graham 1966, "Bounds
for certain multiprocessing anomalies"; Brent 1974). So beyond W/C devices little can be gained, and
nothing once every run of the widest stage has a device of its own.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from bench.roofline.devices import NOTHING, Span, total

Chain = Sequence[Sequence[Span]]  # seconds of the runs of each stage


@dataclass(frozen=True)
class Timeline:
    """Seconds of a plan.

    Attributes:
        work: of all runs, one after the other: device-seconds.
        critical: of the critical path.
        widest: runs that can be under way at once.
    """

    work: Span
    critical: Span
    widest: int

    @property
    def devices(self) -> int:
        """Beyond these the plan stops getting faster: the work fills so many critical paths."""
        if not self.critical.likely:
            return 1
        return min(max(1, self.widest), math.ceil(self.work.likely / self.critical.likely))

    def bounds(self, devices: int) -> tuple[float, float]:
        """The least and the most expected seconds with so many devices."""
        work, critical = self.work.likely, self.critical.likely
        if devices >= self.widest:
            return critical, critical
        return max(critical, work / devices), critical + (work - critical) / devices


def timeline(chains: Iterable[Chain]) -> Timeline:
    """The timeline of chains that do not wait for each other."""
    work, paths, widest = NOTHING, [], 0
    for chain in chains:
        stages = [stage for stage in chain if stage]
        work = total([work, *itertools.chain(*stages)])
        paths.append(total(map(_longest, stages)))
        widest += max(map(len, stages), default=0)
    critical = _longest(paths) if paths else NOTHING
    return Timeline(work, critical, widest)


def _longest(spans: Sequence[Span]) -> Span:
    return Span(*(max(corner) for corner in zip(*spans, strict=True)))
