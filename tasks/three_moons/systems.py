"""Moons on circular orbits: period sets, the sampling grid and seeded sequences."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

import numpy as np
import torch
from torch import Tensor

TIMELINE = 10_000
"""Samples on the line from which a sequence is cut (the authors' script)."""

FULL_PERIODS = 3
"""Full periods of the longest system in one sequence (section 5)."""

COMMON_PHASE = 0.3
"""Angle of every moon at time 0, in radians (the authors' script)."""

Phases = Literal["common", "independent"]
Periods = tuple[float, ...]


def full_period(periods: Sequence[float]) -> float:
    """Least common multiple of the periods, in their unit: all moons are back where they were."""
    fractions = [Fraction(period).limit_denominator(1000) for period in periods]
    numerator = math.lcm(*(fraction.numerator for fraction in fractions))
    return float(Fraction(numerator, math.gcd(*(f.denominator for f in fractions))))


def label(periods: Sequence[float]) -> str:
    """ "1,2,3" for (1.0, 2.0, 3.0): how metrics and curves name a system."""
    return ",".join(f"{period:g}" for period in periods)


@dataclass(frozen=True)
class Grid:
    """Where sequences are sampled.

    Attributes:
        samples: samples in one sequence, the last target included.
        rate: samples per unit of time.
        starts: a sequence starts at a sample in [0, starts).
        phases: "common" gives every moon the same phase at time 0, "independent" draws one each.
    """

    samples: int
    rate: float
    starts: int
    phases: Phases

    @classmethod
    def fitting(cls, length: int, longest: float, phases: Phases) -> Grid:
        """Three full periods of the longest system in ``length`` samples."""
        # The timeline leaves room for two sequences after the start, as in the authors' script.
        return cls(length + 1, length / longest / FULL_PERIODS, TIMELINE - 2 * length - 1, phases)

    def sequences(self, systems: Sequence[Periods], key: Sequence[int], count: int) -> Tensor:
        """Sequences 0 … count - 1 of the stream ``key``, each of a system drawn from ``systems``.

        Returns:
            float32 (count, samples, 2 × moons): sine and cosine of every moon, computed in float64.
            Sequence i depends on (systems, key, i) alone, not on ``count``.
        """
        moons = len(systems[0])
        digest = hashlib.blake2b(
            repr([int(part) for part in key]).encode(), digest_size=16
        ).digest()
        generator = np.random.Generator(np.random.Philox(key=int.from_bytes(digest, "little")))
        # One row of uniforms a sequence, whatever the settings, keeps streams aligned across them.
        uniforms = generator.random((count, 2 + moons))
        periods = np.asarray(systems, dtype=np.float64)[(uniforms[:, 0] * len(systems)).astype(int)]
        start = np.floor(uniforms[:, 1] * self.starts)
        phase = np.full((count, moons), COMMON_PHASE)
        if self.phases == "independent":
            phase = 2 * np.pi * uniforms[:, 2:]
        # Periods are no whole numbers of samples at this rate, and are not rounded.
        time = (start[:, None] + np.arange(self.samples)) / self.rate
        angle = 2 * np.pi * time[:, :, None] / periods[:, None] + phase[:, None]
        circle = np.stack([np.sin(angle), np.cos(angle)], axis=-1)
        return torch.from_numpy(circle.reshape(count, self.samples, -1).astype(np.float32))
