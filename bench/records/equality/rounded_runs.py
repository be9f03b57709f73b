"""What a proof by rounding says of the runs that it compared. Nothing here imports torch."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from bench.records.schema import FrozenModel

Sha256 = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]


class RoundedRun(FrozenModel):
    """A short training that was made by both states of the code, in two precisions.

    Attributes:
        words: the settings, as of a command line.
        data, initial_weights: SHA-256, the same by both.
        steps: of the training.
        longest_sum: terms of the longest sum of a step, which the bound in float64 is
            proportional to.
        float64: what was compared (outputs, gradients, losses, weights, evaluation) -> the largest
            difference of the two, as a share of its bound; at most 1.
        float32: likewise -> the largest difference of the two, in differences that the last bits
            of the weights make; at most ``factor``.
        perturbations: runs with other last bits, in each precision.
    """

    words: str
    data: dict[str, Sha256]
    initial_weights: Sha256
    steps: int
    longest_sum: int
    float64: dict[str, float]
    float32: dict[str, float]
    factor: float
    perturbations: int


class WholeRun(FrozenModel):
    """A committed run whose loss falls by a jump, made again in full by the newer code.

    Attributes:
        record: the run id of the committed one.
        largest_fall: of its training loss within a tenth of its steps, after their first tenth, as
            a share of all that the loss changes by.
        metric: the headline.
        recorded, measured: its values, on the test split.
        bound: the largest difference that seeds explain, and ``bound_from`` which.
    """

    record: str
    largest_fall: float
    metric: str
    recorded: float
    measured: float
    bound: float
    bound_from: str
