"""What runs would take on a device that is not here, each alone: by their counted steps, or by the
FLOPs of records where a step cannot be counted without making data."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Sequence

from bench.config.settings import Configuration
from bench.records.schema import RunRecord
from bench.roofline.devices import Span
from bench.roofline.schedule import Chain
from bench.search.forecast import Forecaster, forecaster_of
from bench.search.forecast_table import print_assumptions, print_timeline
from core.errors import UserError
from core.screen import console
from reproduce.planned import PlannedRun
from reproduce.planning.cost import BY_FLOPS, ExpectedCost, Speeds


class SpeedsElsewhere(Speeds):
    """The questions of :class:`Speeds`, answered for a device of the cards.

    Predictors and measurements train nothing that could be counted: they are as on this machine.
    """

    def __init__(self, records: Iterable[RunRecord], device: str) -> None:
        super().__init__(records)
        self.forecaster = Forecaster(forecaster_of(device).device, make_data=False)

    def print_basis(self, runs: Sequence[PlannedRun]) -> None:
        """Print how long all runs take on so many of the other devices, and what that assumes."""
        device = self.forecaster.device
        print_timeline(chains(runs, self), device)
        print_assumptions(device, "float32")
        console().print(
            "predictors and measurements are as on this machine; core time, core-hours and "
            f"GPU-hours above are hours on {device.label}",
            soft_wrap=True,
        )

    def _cost(self, configuration: Configuration, key: str, predictors: bool) -> ExpectedCost:
        if predictors or configuration.takes is not None:
            return super()._cost(configuration, key, predictors)
        device = self.forecaster.device
        try:
            forecast = self.forecaster.training(configuration.of_training()).seconds
        except UserError:
            return self._by_flops(configuration, key)
        return ExpectedCost(
            forecast.likely, forecast.low, forecast.high, (f"steps counted for {device.label}",)
        )

    def _by_flops(self, configuration: Configuration, key: str) -> ExpectedCost:
        """Without launches, of which nothing is known: the range says so as far as it can."""
        alike = self.nearest_by_work(configuration)
        corners = self.forecaster.device.corners
        precision = configuration.training.precision
        if alike is None or precision not in corners:
            return super()._cost(configuration, key, predictors=False)
        flops = alike.steps * alike.flops
        best, likely, worst = (flops / corner.peak for corner in corners[precision])
        source = f"FLOPs as {alike.record.run_id}, launches not counted"
        return ExpectedCost(likely, best / BY_FLOPS, worst * BY_FLOPS, (source,))


def chains(runs: Iterable[PlannedRun], speeds: Speeds) -> list[Chain]:
    """For each model in each setting of its task: first trials and single runs, then final runs.
    A training that several share is in once."""
    stages: dict[str, tuple[list[Span], list[Span]]] = defaultdict(lambda: ([], []))
    for run in {run.training: run for run in runs}.values():
        configuration = run.configuration
        cost = speeds.of(run)
        key = json.dumps(
            [configuration.task, configuration.model, configuration.tasks], sort_keys=True
        )
        stages[key][run.role == "final"].append(Span(cost.low, cost.seconds, cost.high))
    return list(stages.values())
