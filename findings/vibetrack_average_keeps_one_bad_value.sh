#!/usr/bin/env bash
# vibetrack 0.1.3: one value that is no number stays in its smoothed curves for good.
#
# The moving average is documented as the mean of the last values, and kept as a running sum from which the
# value that leaves is subtracted: NaN less NaN is NaN, infinity less infinity too, and beside a spike of
# 1e17 all else was rounded away. So a loss that overflowed once is drawn as NaN, or wrong, to the end of
# the run. Its ema, documented as TensorBoard's, which leaves such values out, ends in NaN or infinity
# likewise. Its gaussian smoothing forgets them within steps.
#
# Needs a Python with pip (PYTHON=python3 is the default). numpy is taken from it, or installed.
# Exit code 0: it behaves as described; 1: it does not any more; 2: it could not be installed.
set -euo pipefail
python=${PYTHON:-python3}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
pip=("$python" -m pip install --quiet --disable-pip-version-check --target "$folder")
"${pip[@]}" --no-deps vibetrack==0.1.3 || exit 2
"$python" -c 'import numpy' 2>/dev/null || "${pip[@]}" numpy || exit 2
cd "$folder"
PYTHONPATH="$folder" OMP_NUM_THREADS=1 "$python" - <<'PYTHON'
import math
import statistics
import sys
from importlib.metadata import version

from vibetrack.smoother import smooth

WINDOW, LENGTH, AT = 10, 1000, 100
usual = [1.0 + 0.5 * math.sin(step) for step in range(LENGTH)]
print(f"vibetrack {version('vibetrack')}; {LENGTH} values between 0.5 and 1.5, and one at step {AT} that is:")
as_described = True
for bad in (2.0, math.inf, math.nan, 1e17):
    values = usual.copy()
    values[AT] = bad
    average = smooth(values, "moving_average", window=WINDOW)
    wrong = 0
    for step in range(AT + WINDOW, LENGTH):  # windows that the value has left
        mean = statistics.fmean(values[step - WINDOW + 1 : step + 1])
        wrong += not math.isclose(average[step], mean, rel_tol=1e-9)
    ema, gaussian = smooth(values, "ema")[-1], smooth(values, "gaussian", sigma=2.0)[-1]
    print(f"  {bad:g}: {wrong} of {LENGTH - AT - WINDOW} means without it are wrong; the last is")
    print(f"    {average[-1]:.4f}, and truly {mean:.4f}; ema {ema:.4f}, gaussian {gaussian:.4f}")
    as_described &= wrong == (0 if bad == 2.0 else LENGTH - AT - WINDOW)
    as_described &= math.isfinite(gaussian) and math.isfinite(ema) == math.isfinite(bad)
sys.exit(0 if as_described else 1)
PYTHON
