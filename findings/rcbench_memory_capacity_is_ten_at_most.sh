#!/usr/bin/env bash
# rcbench 1.0.10: the total memory capacity of a reservoir is at most ten, unless it is told otherwise.
#
# calculate_total_memory_capacity() keeps ten nodes by default, and the capacities of a linear readout sum
# to no more than its number of nodes (Jaeger 2001). So a delay line that holds the last 40 inputs, all 30
# that are asked for among them, scores 9 of 30. The ten are chosen once for all delays: by their part in
# the first principal component or, with "kbest", by their correlation with the input one step before.
#
# Needs a Python with pip (PYTHON=python3 is the default); what it runs is installed.
# Exit code 0: it behaves as described; 1: it does not any more; 2: it could not be installed.
set -euo pipefail
python=${PYTHON:-python3}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
pip=("$python" -m pip install --quiet --disable-pip-version-check --target "$folder")
"${pip[@]}" numpy==2.4.6 scipy==1.17.1 scikit-learn==1.9.1 pandas==3.1.1 matplotlib==3.11.2 \
    || exit 2
"${pip[@]}" --no-deps rcbench==1.0.10 || exit 2
cd "$folder"
PYTHONPATH="$folder" OMP_NUM_THREADS=1 "$python" - <<'PYTHON'
import logging
import sys
from importlib.metadata import version

import numpy as np
from rcbench.tasks.memorycapacity import MemoryCapacityEvaluator

logging.disable(logging.CRITICAL)
NODES, DELAYS, LENGTH = 40, 30, 3000
inputs = np.random.default_rng(0).uniform(-1, 1, LENGTH)
line = np.stack([np.roll(inputs, delay) for delay in range(1, NODES + 1)], axis=1)


def capacity(**options):
    evaluator = MemoryCapacityEvaluator(inputs, line, max_delay=DELAYS)
    return evaluator.calculate_total_memory_capacity(**options)["total_memory_capacity"]


def by_hand():
    """The sum of the squared correlations of each past input with the node that has it."""
    pairs = ((np.roll(inputs, delay), line[:, delay - 1]) for delay in range(1, DELAYS + 1))
    return sum(np.corrcoef(past, node)[0, 1] ** 2 for past, node in pairs)


print(f"rcbench {version('rcbench')}, scikit-learn {version('scikit-learn')}, numpy {np.__version__}")
print(f"a delay line of {NODES} nodes, delays 1 to {DELAYS}: by hand {by_hand():.2f}")
found = {}
for options in (
    {},
    {"feature_selection_method": "kbest"},
    {"num_features": 20},
    {"num_features": "all"},
):
    name = ", ".join(f"{key}={value!r}" for key, value in options.items()) or "by default"
    found[name] = capacity(**options)
    print(f"  {name}: {found[name]:.2f}")
*cut, twenty, whole = found.values()
as_described = max(cut) < 10.5 < twenty < 20.5 and abs(whole - DELAYS) < 0.01
sys.exit(0 if as_described and abs(by_hand() - DELAYS) < 1e-6 else 1)
PYTHON
