"""How two outputs are compared, with margins wide enough for any processor's rounding."""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

# Relative to the largest output. Rounding of float32 moves outputs by 1e-6 to 1e-5 and a leak by
# 1e-3 or more; what lies between is told as such, so that other processors say the same.
ROUNDING = 1e-4
LEAK = 1e-3

YES, NO, UNCLEAR, RAISES, ABSENT = "yes", "no", "unclear", "raises", "not offered"


@dataclass
class Outcome:
    """What a check came to.

    Attributes:
        holds: one of the five words above.
        deviation: the largest relative one that was seen.
        where: the case that it was seen in, or the error.
    """

    holds: str
    deviation: float | None = None
    where: str = ""

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


class Comparison:
    """Collects deviations of many cases and says how they come out together."""

    def __init__(self) -> None:
        self.worst, self.where = 0.0, ""

    def add(self, got: Tensor, expected: Tensor, case: str) -> None:
        """Compare outputs of equal shape; those that are no numbers count as infinitely far."""
        got, expected = got.detach().double(), expected.detach().double()
        if got.shape != expected.shape:
            case = f"{case}: shape {tuple(got.shape)}, expected {tuple(expected.shape)}"
            deviation = float("inf")
        elif not got.numel():
            return
        else:
            largest = float(expected.abs().max())
            deviation = float((got - expected).abs().max()) / max(largest, 1e-30)
            if deviation != deviation:
                deviation = float("inf")
        if deviation > self.worst:
            self.worst, self.where = deviation, case

    def outcome(self) -> Outcome:
        holds = YES if self.worst <= ROUNDING else NO if self.worst >= LEAK else UNCLEAR
        return Outcome(holds, self.worst, self.where if holds != YES else "")


def guarded(check: Callable[[], Outcome]) -> Outcome:
    """The outcome of a check; an error of the package is an outcome too, in one line."""
    try:
        return check()
    except Exception as error:
        lines = str(error).strip().splitlines() or [""]
        return Outcome(RAISES, None, f"{type(error).__name__}: {lines[0]}"[:200])


def random_tokens(shape: tuple[int, int], vocabulary: int, seed: int) -> Tensor:
    """Uniform tokens (batch, time) of a seed, whatever the global random state is."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(vocabulary, shape, generator=generator)
