#!/usr/bin/env bash
# hopfieldkit 0.1.0: empirical_capacity_scan(seed=...) gives other rates each time.
#
# The seed draws patterns and flipped bits, but each recall updates its units in an order that a new,
# unseeded generator draws. Near capacity the order decides, so that two scans of one seed differ by
# several trials. Recalled in the order of the units, the same trials always give the same rates.
#
# Needs a Python with pip (PYTHON=python3 is the default). numpy is taken from it, or installed.
# Exit code 0: it behaves as described; 1: it does not any more; 2: it could not be installed.
set -euo pipefail
python=${PYTHON:-python3}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
pip=("$python" -m pip install --quiet --disable-pip-version-check --target "$folder")
"${pip[@]}" --no-deps hopfieldkit==0.1.0 || exit 2
"$python" -c 'import numpy' 2>/dev/null || "${pip[@]}" numpy || exit 2
cd "$folder"
PYTHONPATH="$folder" OMP_NUM_THREADS=1 "$python" - <<'PYTHON'
import sys
from importlib.metadata import version

import numpy as np
from hopfieldkit import HopfieldNetwork, empirical_capacity_scan

UNITS, COUNTS, TRIALS, SCANS = 60, [6, 8, 10], 40, 6
scans = [
    tuple(empirical_capacity_scan(UNITS, COUNTS, n_trials=TRIALS, seed=0)["success_rates"])
    for _ in range(SCANS)
]


def in_sequence():
    """The same trials, each recalled in the order of its units."""
    random, rates = np.random.default_rng(0), []
    for count in COUNTS:
        right = 0
        for _ in range(TRIALS):
            patterns = random.choice([-1.0, 1.0], size=(count, UNITS))
            start = patterns[0].copy()
            start[random.choice(UNITS, size=int(0.15 * UNITS), replace=False)] *= -1
            recalled = HopfieldNetwork(UNITS).fit(patterns).recall(start, order="sequential")
            right += np.array_equal(recalled, patterns[0])
        rates.append(right / TRIALS)
    return tuple(rates)


ordered = {in_sequence() for _ in range(SCANS)}
print(f"hopfieldkit {version('hopfieldkit')}, numpy {np.__version__}")
print(f"share of {TRIALS} recalls that are right, for {COUNTS} patterns in {UNITS} units, always seed 0:")
for scan in scans:
    print("  " + ", ".join(f"{rate:.3f}" for rate in scan))
print(f"different results of {SCANS} scans: {len(set(scans))}; with recalls in sequence: {len(ordered)}")
sys.exit(0 if len(set(scans)) > 1 and len(ordered) == 1 else 1)
PYTHON
