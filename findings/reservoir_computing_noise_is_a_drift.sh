#!/usr/bin/env bash
# reservoir-computing 1.0.2: the noise of its reservoir is uniform from 0 to noise_level, and pushes one way.
#
# noise_level is documented as the standard deviation of Gaussian noise. What each unit gets at each step
# has half of noise_level as its mean and 0.29 of it as its standard deviation: a bias more than noise.
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
import sys
from importlib.metadata import version

import numpy as np
from reservoir_computing.reservoir import Reservoir

LEVEL, UNITS, RUNS = 0.1, 50, 4000
np.random.seed(0)
reservoir = Reservoir(n_internal_units=UNITS, noise_level=LEVEL)
# From rest and without input the state after one step is tanh of the noise alone.
states = reservoir.get_states(np.zeros((RUNS, 1, 1)), bidir=False)
noise = np.arctanh(states).ravel()
gaussian = LEVEL * np.random.default_rng(0).standard_normal(noise.size)
print(f"reservoir-computing {version('reservoir-computing')}, numpy {np.__version__}")
print(f"noise_level {LEVEL}: {noise.size} draws, by noise_level:")
for name, draws in (("in the reservoir", noise), ("as documented", gaussian)):
    numbers = draws.mean(), draws.std(), draws.min(), draws.max()
    mean, deviation, least, most = (number / LEVEL for number in numbers)
    print(f"  {name}: mean {mean:.3f}, standard deviation {deviation:.3f}, {least:.2f} to {most:.2f}")
as_described = abs(noise.mean() / LEVEL - 0.5) < 0.01 and abs(noise.std() / LEVEL - 12**-0.5) < 0.01
sys.exit(0 if as_described and noise.min() >= 0 and noise.max() <= LEVEL else 1)
PYTHON
