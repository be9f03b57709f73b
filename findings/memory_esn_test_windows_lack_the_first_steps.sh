#!/usr/bin/env bash
# memory-esn 0.1.1: get_test_data() leaves out the first test steps, one fewer than the lookback.
#
# With windows that look back 24 steps and forward one, 24 test steps give one target, the last step, and
# 23 give none. (One more window, at the end, has NaN as its target.) Validation windows are cut likewise.
# The docstrings promise windows over the part, with what is before it as context; that context alone
# would give every step a window.
#
# Needs a Python with pip (PYTHON=python3 is the default); what it runs is installed.
# Exit code 0: it behaves as described; 1: it does not any more; 2: it could not be installed.
set -euo pipefail
python=${PYTHON:-python3}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
pip=("$python" -m pip install --quiet --disable-pip-version-check --target "$folder")
"${pip[@]}" --no-deps memory-esn==0.1.1 PyWavelets==1.9.0 || exit 2
"${pip[@]}" numpy==2.4.6 scipy==1.17.1 scikit-learn==1.9.1 joblib==1.6.0 || exit 2
cd "$folder"
PYTHONPATH="$folder" OMP_NUM_THREADS=1 "$python" - <<'PYTHON'
import sys
from importlib.metadata import version

import numpy as np
from memory_esn import TimeSeriesDataset

LENGTH = 500
print(f"memory-esn {version('memory-esn')}, numpy {np.__version__}")
missing = {}
for lookback, steps in ((1, 24), (12, 24), (24, 24), (24, 23), (24, 60)):
    # The value of each step is its number, so that targets say which steps they are.
    data = TimeSeriesDataset(
        np.arange(LENGTH), lookback=lookback, lookahead=1, test_size=steps, val_size=60
    )
    targets = data.get_test_data()[1].ravel()
    scored = targets[np.isfinite(targets)].astype(int)
    tested = range(LENGTH - steps, LENGTH)
    missing[lookback, steps] = [step for step in tested if step not in scored]
    validated = data.get_val_data()[1].ravel().astype(int)
    of_validation = f"60 validation steps: {len(validated)}"
    print(f"lookback {lookback}, {steps} test steps: {len(scored)} targets; {of_validation}")
as_described = all(
    left_out == list(range(LENGTH - steps, LENGTH))[: lookback - 1]
    for (lookback, steps), left_out in missing.items()
)
sys.exit(0 if as_described else 1)
PYTHON
