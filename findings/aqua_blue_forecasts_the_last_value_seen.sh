#!/usr/bin/env bash
# aqua-blue 0.2.19: a forecast is one step late, and the second one starts where the first ended.
#
# Model.train() runs the reservoir up to the last value but one, and Model.predict() begins with what
# that state gives, the last value of the training, under the time of the next one. So all values stand
# one step too late: a circle is followed to 1e-7 if each is compared with the step before. A second
# predict() gives later values under the same times, since the reservoir goes on from its state.
#
# Needs a Python with pip (PYTHON=python3 is the default). numpy is taken from it, or installed.
# Exit code 0: it behaves as described; 1: it does not any more; 2: it could not be installed.
set -euo pipefail
python=${PYTHON:-python3}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
pip=("$python" -m pip install --quiet --disable-pip-version-check --target "$folder")
"${pip[@]}" --no-deps aqua-blue==0.2.19 tzdata==2025.3 || exit 2
"${pip[@]}" python-dateutil==2.9.0.post0 || exit 2
"$python" -c 'import numpy' 2>/dev/null || "${pip[@]}" numpy || exit 2
cd "$folder"
PYTHONPATH="$folder" OMP_NUM_THREADS=1 "$python" - <<'PYTHON'
import sys
from importlib.metadata import version

import aqua_blue
import numpy as np

STEP, HORIZON = 0.1, 50


def circle(times):
    return np.vstack((np.cos(times), np.sin(times))).T


seen = np.arange(500) * STEP
series = aqua_blue.time_series.TimeSeries(dependent_variable=circle(seen), times=seen)
reservoir = aqua_blue.reservoirs.DynamicalReservoir(reservoir_dimensionality=100, input_dimensionality=2)
model = aqua_blue.models.Model(reservoir=reservoir, readout=aqua_blue.readouts.LinearReadout())
model.train(series)
first, second = model.predict(HORIZON), model.predict(HORIZON)
times = np.asarray(first.times, dtype=float)
values = first.dependent_variable
at_its_times = np.abs(values - circle(times)).max()
one_earlier = np.abs(values - circle(times - STEP)).max()
same_times = np.array_equal(times, np.asarray(second.times, dtype=float))
moved = np.abs(second.dependent_variable - values).max()
print(f"aqua-blue {version('aqua-blue')}, numpy {np.__version__}")
print(f"last time of the training {seen[-1]:.1f}, first of the forecast {times[0]:.1f}")
print(f"error of the forecast at the times it states {at_its_times:.2g}, one step earlier {one_earlier:.1g}")
print(f"a second forecast: same times {same_times}, values differ by up to {moved:.2g}")
as_described = at_its_times > 0.05 and one_earlier < 1e-3 and same_times and moved > 0.5
sys.exit(0 if as_described else 1)
PYTHON
