#!/usr/bin/env bash
# reservoir-computing 1.0.2: making a series takes away the seed of NumPy, and with it that of the reservoir.
#
# A Reservoir draws its weights from NumPy's global generator and takes no seed, so that np.random.seed()
# is the way to repeat one. mso() seeds that generator by chance at its end, also where it is given a seed,
# and mackey_glass() at its start, unless it is given one. A run that seeds, makes its data and then builds
# its model has another model each time.
#
# Needs a Python with pip (PYTHON=python3 is the default); what it runs is installed.
# Exit code 0: it behaves as described; 1: it does not any more; 2: it could not be installed.
set -euo pipefail
python=${PYTHON:-python3}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
pip=("$python" -m pip install --quiet --disable-pip-version-check --target "$folder")
"${pip[@]}" numpy==2.4.6 scipy==1.17.1 scikit-learn==1.9.1 requests==2.32.5 matplotlib==3.11.2 || exit 2
"${pip[@]}" --no-deps reservoir-computing==1.0.2 || exit 2
cd "$folder"
PYTHONPATH="$folder" OMP_NUM_THREADS=1 "$python" - <<'PYTHON'
import contextlib
import io
import sys
from importlib.metadata import version

import numpy as np
from reservoir_computing.datasets import mackey_glass, mso
from reservoir_computing.reservoir import Reservoir


def run(make):
    """The series and the states of a run that seeds, makes its series and builds its reservoir."""
    np.random.seed(0)
    with contextlib.redirect_stdout(io.StringIO()):  # mso tells its frequencies
        series = make()
    return series, Reservoir(n_internal_units=20).get_states(np.ones((1, 30, 1)), bidir=False)


SERIES = {
    "a sine": lambda: np.sin(np.arange(100)),
    "mackey_glass(seed=1)": lambda: mackey_glass(100, seed=1),
    "mackey_glass()": lambda: mackey_glass(100),
    "mso(seed=1)": lambda: mso(100, seed=1),
}
print(f"reservoir-computing {version('reservoir-computing')}, numpy {np.__version__}")
print("two runs from np.random.seed(0):")
same = {}
for name, make in SERIES.items():
    (one, first), (other, second) = run(make), run(make)
    same[name] = np.array_equal(one, other), np.array_equal(first, second)
    told = ["the same" if equal else "another" for equal in same[name]]
    print(f"  {name}: {told[0]} series, {told[1]} reservoir")
expected = [(True, True), (True, True), (False, False), (True, False)]
sys.exit(0 if list(same.values()) == expected else 1)
PYTHON
