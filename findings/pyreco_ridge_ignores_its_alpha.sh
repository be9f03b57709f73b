#!/usr/bin/env bash
# pyreco 2.0.1: RidgeSK(alpha=...) regularises by 1.0, whatever alpha is.
#
# The constructor keeps 1.0 in place of its argument, so that a search over alpha, each in a new optimiser,
# compares a model with itself. set_alpha() does act.
#
# Needs a Python with pip (PYTHON=python3 is the default); what it runs is installed.
# Exit code 0: it behaves as described; 1: it does not any more; 2: it could not be installed.
set -euo pipefail
python=${PYTHON:-python3}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
pip=("$python" -m pip install --quiet --disable-pip-version-check --target "$folder")
"${pip[@]}" numpy==2.4.6 scipy==1.17.1 scikit-learn==1.9.1 networkx==3.6.1 matplotlib==3.11.2 \
    tqdm==4.70.1 || exit 2
"${pip[@]}" --no-deps pyreco==2.0.1 || exit 2
cd "$folder"
PYTHONPATH="$folder" OMP_NUM_THREADS=1 "$python" - <<'PYTHON'
import sys
from importlib.metadata import version

import numpy as np
from pyreco.optimizers import RidgeSK

ALPHAS = (1e-6, 1.0, 1e6)
random = np.random.default_rng(0)
states, targets = random.standard_normal((200, 20)), random.standard_normal((200, 1))


def ridge(alpha):
    """The weights of a ridge regression without intercept, by its normal equations."""
    return np.linalg.solve(states.T @ states + alpha * np.eye(20), states.T @ targets)


def far(weights, alpha):
    return np.abs(np.reshape(weights, (20, 1)) - ridge(alpha)).max() / np.abs(ridge(1.0)).max()


print(f"pyreco {version('pyreco')}, scikit-learn {version('scikit-learn')}, numpy {np.__version__}")
given, set_later, to_one = [], [], []
for alpha in ALPHAS:
    optimiser = RidgeSK(alpha=alpha)
    weights = optimiser.solve(states, targets)
    given.append(far(weights, alpha))
    to_one.append(far(weights, 1.0))
    optimiser.set_alpha(alpha)
    set_later.append(far(optimiser.solve(states, targets), alpha))
    print(f"alpha {alpha:g}: off from a ridge regression by alpha: RidgeSK(alpha) by {given[-1]:.1g}")
    print(f"  (from one by 1 by {to_one[-1]:.1g}), after set_alpha(alpha) by {set_later[-1]:.1g}")
as_described = max(to_one) < 1e-8 and max(set_later) < 1e-8 and given[0] > 1e-4 and given[2] > 0.5
sys.exit(0 if as_described else 1)
PYTHON
