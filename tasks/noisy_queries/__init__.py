"""How much of what a memory holds it still recalls when queries are noisy.

Bietti 2024, Associative memories as a tractable building block in transformers (slides),
"Increasing capacity": tables and soft-max hold exponentially many associations, but are more
sensitive to noise. No protocol is published. Two readings are measured: at one number of pairs for
every memory, and at as many as the memory just holds.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import cast, get_args

import torch
from torch import Tensor
from torch.nn.functional import normalize

from models.memories.interface import Memory
from tasks.capacity.search import largest
from tasks.interface import Evaluation, Metric, Report, Split
from tasks.measurement import Build, Measurement
from tasks.refusals import check_number, check_numbers
from tasks.seeds import generator_of

DRAWS = 4  # of the noise, at each amount of it
SCORES_AT_ONCE = 2**24  # products of what is read and the values


class NoisyQueries(Measurement):
    """Recall by queries normalise(k + σ g), with a random direction g of length 1.

    Keys and values are random vectors of length 1. A trial draws its embeddings once, and N pairs
    are its first N; what is recalled is judged among the values that are stored. The angle between
    a query and its key has the tangent σ: 27° for σ = 0.5, 45° for 1, 63° for 2.

    Example: ``width=4``, three pairs, a table that is looked up by the nearest key, first trial of
    the test of seed 0; cosines of each query with the stored keys:

        σ = 0.5    .93 -.31 -.55      σ = 2    .65 -.24 -.34
                  -.12  .91  .75              .16  .58  .42
                  -.53  .96  .89  ← lost      .33  .00 -.41  ← lost

    A memory must tell whose key a query was; a guess is right with 1/N.

    Args:
        width: d of keys and values.
        pairs: N at which all memories are compared.
        held_at: σ at which it is found how many pairs a memory holds.
        share: of queries that it must recall for that.
        noises: values of σ, in rising order; the last is the headline's.
        largest: no more than this many times d² pairs are tried.
        trials: independent memories.

    Raises:
        ValueError: a number out of range.
    """

    headline = Metric("recall", "maximise")

    def __init__(
        self,
        width: int = 8,
        pairs: int = 4,
        held_at: float = 0.5,
        share: float = 0.9,
        noises: Sequence[float] = (0.25, 0.5, 1.0, 2.0),
        largest: float = 16.0,
        trials: int = 32,
    ) -> None:
        for name, value, least in (("width", width, 2), ("pairs", pairs, 1), ("trials", trials, 1)):
            if value < least:
                raise ValueError(f"{name}={value} is too small: give at least {least}")
        check_number("held_at", held_at, 0)
        check_number("largest", largest, 0)
        check_numbers("noises", noises, 0)
        if not 0 < share <= 1:
            raise ValueError(f"share={share} is no share: give one above 0 and at most 1")
        self.width, self.pairs, self.held_at, self.share = width, pairs, held_at, share
        self.noises, self.trials = sorted(noises), trials
        self.most = max(pairs, round(largest * width**2))

    def data_hashes(self) -> dict[str, str]:
        """SHA-256 of the first trial of seed 0."""
        hashes = {}
        for split in get_args(Split):
            digest = hashlib.sha256()
            for drawn in self._draw(split, 0, trials=1):
                digest.update(drawn.numpy().tobytes())
            hashes[split] = digest.hexdigest()
        return hashes

    def measure(
        self, build: Build, split: Split, seed: int, device: torch.device | str, report: Report
    ) -> Evaluation:
        """``recall/pairs/noise=…`` at N pairs and ``recall/held/noise=…`` at as many as each
        trial holds, as metrics and by trial in the arrays of these names; ``held``, how many these
        are, and ``filled``, whether a number that it does not hold was found."""
        keys, values, directions = (x.to(device) for x in self._draw(split, seed, self.trials))

        def recalled(trials: Sequence[int], count: int, noise: float) -> list[float]:
            chosen = torch.as_tensor(trials, device=keys.device)
            memory = cast(Memory, build(self.width, self.width, seed=seed))
            # The pairs stand in the second axis from the last of all three.
            written_keys, stored, of_noise = (
                x[chosen][..., :count, :] for x in (keys, values, directions)
            )
            return _recall(memory, written_keys, stored, of_noise, noise).tolist()

        def at(tried: int) -> None:
            report(f"pairs that are held, try {tried}", 0, 1)

        with torch.no_grad():
            held = largest(
                lambda trials, count: recalled(trials, count, self.held_at),
                self.trials,
                self.share,
                start=min(self.width, self.most),
                most=self.most,
                report=at,
            )
            evaluation = Evaluation({}, arrays={"held": [bracket.low for bracket in held]})
            evaluation.arrays["filled"] = [bracket.high is not None for bracket in held]
            evaluation.metrics["held"] = sum(evaluation.arrays["held"]) / self.trials
            for noise in self.noises:
                same = recalled(range(self.trials), self.pairs, noise)
                at_capacity = []
                for trial, bracket in enumerate(held):
                    # A memory that holds no pair recalls none.
                    at_capacity.append(
                        recalled([trial], bracket.low, noise)[0] if bracket.low else 0.0
                    )
                for name, shares in (("pairs", same), ("held", at_capacity)):
                    evaluation.arrays[f"recall/{name}/noise={noise:g}"] = shares
                    evaluation.metrics[f"recall/{name}/noise={noise:g}"] = sum(shares) / self.trials
        evaluation.metrics["recall"] = evaluation.metrics[f"recall/held/noise={self.noises[-1]:g}"]
        report("measured", 1, 1)
        return evaluation

    def _draw(self, split: Split, seed: int, trials: int) -> tuple[Tensor, Tensor, Tensor]:
        """Keys and values (trials, N, d) and directions of noise (trials, draws, N, d), float32 of
        length 1, for the most that are tried."""
        parts: tuple[list[Tensor], ...] = ([], [], [])
        shapes = ((self.most,), (self.most,), (DRAWS, self.most))
        for trial in range(trials):
            for place, (part, shape) in enumerate(zip(parts, shapes, strict=True)):
                # A generator of its own for each part, so that more pairs move no other part.
                generator = generator_of("noisy_queries", split, seed, self.width, trial, place)
                part.append(normalize(torch.randn(*shape, self.width, generator=generator), dim=-1))
        keys, values, directions = (torch.stack(part) for part in parts)
        return keys, values, directions


def _recall(
    memory: Memory, keys: Tensor, values: Tensor, directions: Tensor, noise: float
) -> Tensor:
    """(trials,) share of all noisy queries whose value is found among those that are stored."""
    memory.write(keys, values)
    trials, count, _ = keys.shape
    right = torch.zeros(trials, device=keys.device)
    at_once = max(1, SCORES_AT_ONCE // (trials * count))
    for directions_of_draw in directions.unbind(1):
        queries = normalize(keys + noise * directions_of_draw, dim=-1)
        for part in torch.arange(count, device=keys.device).split(at_once):
            read = memory.read(queries[:, part]).values
            # An answer that is not finite recalls nothing, although argmax would name some value.
            recalled = ((read @ values.mT).argmax(-1) == part) & read.isfinite().all(-1)
            right += recalled.sum(-1)
    return right / (count * directions.shape[1])
