"""Gradient descent on associations: margins, oscillations, step sizes and over-optimisation.

Cabannes, Simsek and Bietti 2024, Learning associative memories with gradient descent (ICML 2024,
arXiv 2402.18724), and the step-size experiment of arXiv 2310.02984. All in float64.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import partial
from itertools import product

import torch
from torch import Tensor

from tasks.interface import Evaluation, Metric, Report, Split
from tasks.measurement import Build, Measurement
from tasks.optimisation.fixed import matrix_memory, normal_rows, unit_rows
from tasks.refusals import check_numbers
from tasks.training_dynamics.descent import descend
from tasks.training_dynamics.over_optimisation import (
    errors,
    fewest_errors,
    lowest_loss,
    orthogonal_points,
)
from tasks.training_dynamics.two_tokens import (
    first_perfect_map,
    first_row,
    grid,
    margin_growth,
    two_tokens,
)
from tasks.zipf import zipf

PLOTTED = 35  # steps of the published trajectories
CHECKPOINTS = (100, 1_000, 10_000)
FEW = 5  # tokens, which are their own classes
SIZES = (3, 5, 10)
STEPS = (3.0, 10.0, 20.0)
IN_TWO_DIMENSIONS = (3, 30, 2)  # tokens; two of them always have room
SCHEDULES = ("large", "small", "decreasing")
DECREASED = 100  # the step at which the decreasing schedule becomes small
EVERY = 10  # of long curves, the steps that are kept


Device = torch.device | str


class TrainingDynamics(Measurement):
    """Small problems whose whole path of descent is measured.

    Example: two tokens with overlap .95 and p_1 = .75, from W = 0; the loss by step:

        lr = 1    .69  .59  .56  .54  …                       never rises; perfect from step 52
        lr = 10   .69 1.16  .50  .75  .64 1.35  .29  .33  …   rises and falls; perfect from step 15

    Both must be answered by one matrix although their inputs are nearly the same; without training
    a guess is right with 1/2, at a loss of ln 2 = .69.

    Args:
        first_probabilities: p_1 of two tokens in the table of paths; the law of the margins is
            measured with the first of them.
        overlaps: their scalar products, in that table.
        lrs: learning rates of that table.
        horizon: steps of the table and of the map.
        map_points: values on each of its three axes.
        margin_steps: length of the run whose margins are compared with ln(2 · lr · p · t).
        trials: random embeddings of five tokens, and orthogonal ones.
        stream_trials: random embeddings and streams of the comparison of step sizes.
        draws: random tokens on the circle, where two dimensions do not suffice, and tokens that
            have room: two on the circle, or ten that are orthogonal.

    Raises:
        ValueError: numbers that describe no such experiment.
    """

    headline = Metric("margin_gap", "minimise")

    def __init__(
        self,
        first_probabilities: Sequence[float] = (0.75, 0.5),
        overlaps: Sequence[float] = (-0.5, 0.0, 0.5, 0.95),
        lrs: Sequence[float] = (0.1, 1.0, 3.0, 10.0, 30.0),
        horizon: int = 1000,
        map_points: int = 10,
        margin_steps: int = 10_000,
        trials: int = 50,
        stream_trials: int = 100,
        draws: int = 400,
    ) -> None:
        check_numbers("first_probabilities", first_probabilities, 0, 1)
        check_numbers("overlaps", overlaps, -1, 1)
        check_numbers("lrs", lrs, 0)
        if margin_steps < CHECKPOINTS[0]:
            raise ValueError(
                f"tasks.margin_steps is {margin_steps}, expected at least {CHECKPOINTS[0]}: the "
                "law is about late steps"
            )
        for name, number, least in (
            ("horizon", horizon, PLOTTED),
            ("map_points", map_points, 2),
            ("trials", trials, 2),
            ("stream_trials", stream_trials, 2),
            ("draws", draws, 2),
        ):
            if number < least:
                raise ValueError(f"tasks.{name} is {number}, expected at least {least}")
        self.first_probabilities, self.overlaps, self.lrs = first_probabilities, overlaps, lrs
        self.horizon, self.map_points, self.margin_steps = horizon, map_points, margin_steps
        self.trials, self.stream_trials, self.draws = trials, stream_trials, draws

    def data_hashes(self) -> dict[str, str]:
        """SHA-256 of the first numbers of every part's generator."""
        hashes = {}
        for split in ("validation", "test"):
            digest = hashlib.sha256()
            for part in range(len(PARTS)):
                drawn = torch.randn(100, generator=_generator(part, split, 0))
                digest.update(drawn.numpy().tobytes())
            hashes[split] = digest.hexdigest()
        return hashes

    def measure(
        self, build: Build, split: Split, seed: int, device: Device, report: Report
    ) -> Evaluation:
        """All experiments; only those with random embeddings depend on ``split`` and ``seed``.

        Metrics: ``margin_gap``, the largest distance of a margin from the law at 100, 1,000 and
        10,000 steps, and ``margin/…``; ``increases/d=…,lr=…`` of five tokens, a mean over trials;
        ``late_error/…`` of each schedule; ``excess/N=…``, how far the error at the lowest loss is
        above the fewest errors, and ``forgetting``, the share of runs whose loss fell while their
        error rose. ``increases/orthogonal,lr=…`` and ``forgetting_orthogonal`` are of tokens that
        do not disturb each other, in five and in ten dimensions.

        Arrays: ``two_tokens/float64``, rows (overlap, p_1, learning rate, first perfect step,
        perfect from, highest loss, increases of the loss), and ``two_tokens/float32``, where
        rounding is larger; ``first_perfect_map`` and its axes ``map_axes``; by trial,
        ``increases/…``, ``first_perfect/…``, ``late_error/…``, ``excess/…``.

        Curves of two tokens with the first p_1: ``loss/…`` by step, and ``path/…``, the first row
        of W in the plane.

        Raises:
            Refused: the model trains something else than one matrix.
        """
        result = Evaluation({})
        for done, part in enumerate(PARTS):
            report("experiments", done, len(PARTS))
            part(self, result, build, _generator(done, split, seed), device)
        return result

    def _two_tokens(
        self, result: Evaluation, build: Build, generator: torch.Generator, device: Device
    ) -> None:
        cells = list(product(self.overlaps, self.first_probabilities, self.lrs))
        path = two_tokens(build, cells, self.horizon, device)
        single = two_tokens(build, cells, self.horizon, device, torch.float32)
        for name, trajectory in (("float64", path), ("float32", single)):
            columns = (
                trajectory.first_perfect(),
                trajectory.perfect_from(),
                trajectory.losses.amax(0).tolist(),
                trajectory.increases().tolist(),
            )
            result.arrays[f"two_tokens/{name}"] = [
                [*cell, *row] for cell, row in zip(cells, zip(*columns, strict=True), strict=True)
            ]
        for place, (a, p, lr) in enumerate(cells):
            if p != self.first_probabilities[0]:
                continue
            name = f"a={a:g},lr={lr:g}"
            loss = path.losses[: PLOTTED + 1, place].tolist()
            result.curves[f"loss/{name}"] = _curve(range(PLOTTED + 1), loss)
            x, y = first_row(path.margins[: PLOTTED + 1, place], a).T.tolist()
            result.curves[f"path/{name}"] = {"x": x, "y": y}
        result.arrays["map_axes"] = list(grid(self.map_points))
        result.arrays["first_perfect_map"] = first_perfect_map(
            build, self.map_points, self.horizon, device
        )

    def _margins(
        self, result: Evaluation, build: Build, generator: torch.Generator, device: Device
    ) -> None:
        steps, measured, law = margin_growth(
            build, self.first_probabilities[0], self.margin_steps, device
        )
        gaps = []
        for token in range(2):
            for name, values in (("margin", measured), ("law", law)):
                curve = _curve(steps, values[:, token].tolist())
                result.curves[f"{name}/token={token}"] = curve
            for step in CHECKPOINTS:
                if step in steps:
                    place = steps.index(step)
                    margin = measured[place, token].item()
                    result.metrics[f"margin/token={token},t={step}"] = margin
                    gaps.append(abs(margin - law[place, token].item()))
        result.metrics["margin_gap"] = max(gaps)

    def _few_tokens(
        self, result: Evaluation, build: Build, generator: torch.Generator, device: Device
    ) -> None:
        probabilities = zipf(FEW, 1.0).to(device)
        steps = torch.tensor(STEPS, dtype=torch.float64, device=device)
        random = partial(unit_rows, self.trials, FEW, generator=generator)
        embeddings = {f"d={size}": (random(size), random(size)) for size in SIZES}
        # Last, since all draw from one generator.
        orthogonal = partial(orthogonal_points, self.trials, FEW, generator)
        embeddings["orthogonal"] = orthogonal(), orthogonal()
        for name, (inputs, outputs) in embeddings.items():
            size = inputs.shape[-1]
            model = matrix_memory(
                build,
                # All step sizes at once: each trial is repeated for each of them.
                inputs.repeat(len(STEPS), 1, 1).to(device),
                outputs.mT.repeat(len(STEPS), 1, 1).to(device),
                torch.zeros(size, size),
            )
            lr = steps.repeat_interleave(self.trials).expand(99, -1)
            path = descend(model, torch.arange(FEW, device=device), probabilities, lr)
            increases = path.increases().reshape(len(STEPS), -1)
            first = path.first_perfect()
            for place, step in enumerate(STEPS):
                key = f"{name},lr={step:g}"
                result.metrics[f"increases/{key}"] = increases[place].double().mean().item()
                result.arrays[f"increases/{key}"] = increases[place].tolist()
                first_of_step = first[place * self.trials : (place + 1) * self.trials]
                result.arrays[f"first_perfect/{key}"] = first_of_step

    def _step_sizes(
        self, result: Evaluation, build: Build, generator: torch.Generator, device: Device
    ) -> None:
        tokens, classes, size, number = 10, 5, 5, 1000
        probabilities = zipf(tokens, 1.5)
        trials, schedules = self.stream_trials, len(SCHEDULES)
        inputs = normal_rows(trials, tokens, size, generator=generator)
        outputs = normal_rows(trials, classes, size, generator=generator)
        # Batches of one sample.
        seen = _batches(probabilities, number, trials, 1, generator)
        lr = torch.full((number, schedules, trials), 10.0, dtype=torch.float64)
        lr[:, SCHEDULES.index("small")] = 0.1
        # As published: 10, then 0.3 from step 100 on.
        lr[DECREASED:, SCHEDULES.index("decreasing")] *= 0.03
        model = matrix_memory(
            build,
            inputs.repeat(schedules, 1, 1).to(device),
            outputs.mT.repeat(schedules, 1, 1).to(device),
            torch.zeros(size, size),
        )
        path = descend(
            model,
            (torch.arange(tokens) % classes).to(device),
            probabilities.to(device),
            lr.flatten(1).to(device),
            seen.repeat(1, schedules, 1).to(device),
        )
        measured = {"error": path.errors(probabilities), "loss": path.losses}
        for name, values in measured.items():
            by_schedule = values.reshape(number + 1, schedules, trials)
            for place, schedule in enumerate(SCHEDULES):
                of_schedule = by_schedule[:, place]
                # After the step at which the decreasing schedule has become small.
                late = of_schedule[DECREASED + 1 :].mean(0)
                result.metrics[f"late_{name}/{schedule}"] = late.mean().item()
                result.arrays[f"late_{name}/{schedule}"] = late.tolist()
                curve = _curve(range(0, number + 1, EVERY), of_schedule[::EVERY].mean(-1).tolist())
                result.curves[f"{name}/{schedule}"] = curve

    def _lowest_loss(
        self, result: Evaluation, build: Build, generator: torch.Generator, device: Device
    ) -> None:
        for tokens in IN_TWO_DIMENSIONS:
            points = unit_rows(self.draws, tokens, 2, generator=generator)
            signs, probabilities = _signs(tokens), zipf(tokens, 1.0)
            delta = lowest_loss(points, signs, probabilities)
            fewest = fewest_errors(points, signs, probabilities)
            excess = errors(delta, points, signs, probabilities) - fewest
            result.metrics[f"excess/N={tokens}"] = excess.mean().item()
            result.arrays[f"excess/N={tokens}"] = excess.tolist()

    def _forgetting(
        self, result: Evaluation, build: Build, generator: torch.Generator, device: Device
    ) -> None:
        tokens, batch, number = 10, 10, 1000
        probabilities = zipf(tokens, 2.0)
        crowded = unit_rows(self.draws, tokens, 2, generator=generator)
        seen = _batches(probabilities, number, self.draws, batch, generator)
        # Last, since all draw from one generator.
        orthogonal = orthogonal_points(self.draws, tokens, generator)
        fewest = fewest_errors(crowded, _signs(tokens), probabilities)
        classes = torch.arange(tokens, device=device) % 2
        lr = torch.full((number, self.draws), 0.1, dtype=torch.float64, device=device)
        for name, points, possible in (
            ("forgetting", crowded, fewest),
            ("forgetting_orthogonal", orthogonal, torch.zeros_like(fewest)),
        ):
            size = points.shape[-1]
            start = torch.zeros(size, size)
            # The published start (7.5, −7.5; 2.5, −2.5)/2, in the first two dimensions.
            start[:2, :2] = torch.tensor([[3.75, -3.75], [1.25, -1.25]])
            readout = torch.eye(size, 2, dtype=torch.float64).expand(self.draws, size, 2)
            model = matrix_memory(build, points.to(device), readout.to(device), start)
            path = descend(model, classes, probabilities.to(device), lr, seen.to(device))
            errors = path.errors(probabilities)
            # The loss must have fallen: only then is a rise of the error forgetting by the loss.
            rise = torch.where(path.losses[-1] < path.losses[0], errors[-1] - errors[0], -1.0)
            result.metrics[name] = (rise > 0).double().mean().item()
            worst, steps = int(rise.argmax()), range(0, number + 1, EVERY)
            least = possible[worst].item()
            result.curves[f"{name}/loss"] = _curve(steps, path.losses[::EVERY, worst].tolist())
            result.curves[f"{name}/error"] = _curve(steps, errors[::EVERY, worst].tolist())
            result.curves[f"{name}/fewest errors"] = _curve([0, number], [least, least])


# Each has random numbers of its own.
PARTS = (
    TrainingDynamics._two_tokens,
    TrainingDynamics._margins,
    TrainingDynamics._few_tokens,
    TrainingDynamics._step_sizes,
    TrainingDynamics._lowest_loss,
    TrainingDynamics._forgetting,
)


def _generator(part: int, split: Split, seed: int) -> torch.Generator:
    # A generator of its own for each part, split and seed: parts do not move each other.
    number = len(PARTS) * (2 * seed + (split == "validation")) + part
    return torch.Generator().manual_seed(number)


def _batches(
    probabilities: Tensor, number: int, trials: int, batch: int, generator: torch.Generator
) -> Tensor:
    """(number, trials, tokens) float64: the share of each token in every batch."""
    drawn = torch.multinomial(
        probabilities, number * trials * batch, replacement=True, generator=generator
    ).reshape(number, trials, batch)
    counts = torch.zeros(number, trials, len(probabilities), dtype=torch.float64)
    return counts.scatter_add_(2, drawn, torch.ones_like(drawn, dtype=torch.float64)) / batch


def _signs(tokens: int) -> Tensor:
    """(tokens,) +1 for even tokens and −1 for odd ones."""
    return 1 - 2 * (torch.arange(tokens) % 2).double()


def _curve(x: Sequence[int], y: Sequence[float]) -> dict[str, list[float]]:
    return {"x": [float(step) for step in x], "y": list(y)}
