#!/usr/bin/env bash
# pyreco 2.0.1: fit() scales inputs in another way than predict(), and its training scores are of neither.
#
# An input_scaling, which set_hp() offers to its tuner, multiplies inputs in fit() alone, so that the
# readout meets other reservoir states in predict(). And fit() hands predict() inputs that are normalised
# already, and compares what comes back, in the units of the targets, with normalised targets: the
# train_scores of its history, which choose among n_init trials, are not the error of the model, also
# where nothing is scaled.
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
import contextlib
import io
import random
import sys
from importlib.metadata import version

import numpy as np
from pyreco.custom_models import RC
from pyreco.layers import InputLayer, RandomReservoirLayer, ReadoutLayer

series = 5 + np.sin(0.3 * np.arange(400))[None, :, None]
inputs, targets = series[:, :-1], series[:, 1:]  # the next value


def trained(scaling):
    """A model, and the error that its training tells."""
    np.random.seed(0)
    random.seed(0)
    model = RC()
    model.add(InputLayer(input_shape=(399, 1)))
    model.add(RandomReservoirLayer(nodes=50, density=0.2, seed=0))
    model.add(ReadoutLayer((399, 1), fraction_out=1.0))
    model.compile(optimizer="ridge", metrics=["mean_squared_error"])
    model.set_input_scaling(scaling)
    with contextlib.redirect_stdout(io.StringIO()):
        history = model.fit(inputs, targets)
    return model, float(history["train_scores"][0])


print(f"pyreco {version('pyreco')}, scikit-learn {version('scikit-learn')}, numpy {np.__version__}")
print(f"mean squared error for the next value of a sine (that of its mean is {targets.var():.2f}):")
told, predicted, by_hand = {}, {}, {}
for scaling in (1.0, 0.1, 2.0):
    model, told[scaling] = trained(scaling)
    predicted[scaling] = float(np.mean((model.predict(inputs) - targets) ** 2))
    # Inputs whose normalisation in predict() gives what fit() made of the true ones.
    as_in_fit = (inputs - model.input_mean) * scaling + model.input_mean
    by_hand[scaling] = float(np.mean((model.predict(as_in_fit) - targets) ** 2))
    print(
        f"input_scaling {scaling:g}: predict() {predicted[scaling]:.2g}, with inputs scaled by hand "
        f"{by_hand[scaling]:.1g}; train_scores say {told[scaling]:.2g}"
    )
as_described = predicted[1.0] < 0.01 and min(told.values()) > 1
as_described &= all(predicted[scaling] > 10 * by_hand[scaling] for scaling in (0.1, 2.0))
sys.exit(0 if as_described else 1)
PYTHON
