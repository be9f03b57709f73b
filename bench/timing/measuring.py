"""What a call of ``bench.speed`` measures, prints and saves."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from bench.timing.beside_older_code import compare
from bench.timing.beside_peers import measure_beside_peers
from bench.timing.passes import measure
from bench.timing.settings import SpeedSettings
from bench.timing.tables import print_comparison, print_measurement, print_peers
from core.errors import OK
from core.files import write_atomically
from core.progress import progress


def measure_and_print(settings: SpeedSettings) -> int:
    """Measure, print, and save where ``output=`` says, after each part; the exit code."""

    def keep(measurement: Mapping[str, Any]) -> None:
        if settings.output is not None:
            content = json.dumps(measurement, indent=1) + "\n"
            write_atomically(settings.output, content.encode())

    measured, printed = measure, print_measurement
    if settings.before is not None:
        measured, printed = compare, print_comparison
    elif settings.peers:
        measured, printed = measure_beside_peers, print_peers
    with progress() as report:
        measurement = measured(settings, report, keep)
    keep(measurement)
    printed(measurement)
    return OK
