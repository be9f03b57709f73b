#!/usr/bin/env bash
# ema-pytorch 0.8.3: EMA.forward_eval() runs the averaged model in train mode.
#
# Its comment says "with no grad + eval". It puts the mode back afterwards, but never sets eval mode before.
# The averaged model is a copy that was made in training, so that two calls differ by dropout, and each
# moves the running statistics of a batch normalisation. After EMA.eval() both stop.
#
# Needs a Python with pip (PYTHON=python3 is the default). torch is taken from it, or installed.
# Exit code 0: it behaves as described; 1: it does not any more; 2: it could not be installed.
set -euo pipefail
python=${PYTHON:-python3}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
pip=("$python" -m pip install --quiet --disable-pip-version-check --target "$folder")
"${pip[@]}" --no-deps ema-pytorch==0.8.3 numpy==2.4.6 || exit 2
"$python" -c 'import torch' 2>/dev/null || "${pip[@]}" torch==2.13.0 || exit 2
cd "$folder"
PYTHONPATH="$folder" OMP_NUM_THREADS=1 "$python" - <<'PYTHON'
import sys
from importlib.metadata import version

import torch
from ema_pytorch import EMA
from torch import nn

torch.manual_seed(0)
torch.set_num_threads(1)
model = nn.Sequential(nn.Linear(8, 32), nn.BatchNorm1d(32), nn.Dropout(0.5), nn.Linear(32, 4))
ema = EMA(model)
inputs = torch.randn(16, 8)
for _ in range(3):
    model(inputs)
    ema.update()
with torch.no_grad():
    expected = model.eval()(inputs)  # within the first 100 updates the average is the model
model.train()


def far(outputs):
    return float((outputs - expected).abs().max() / expected.abs().max())


statistics = ema.ema_model[1].running_mean
before = statistics.clone()
first, second = far(ema.forward_eval(inputs)), far(ema.forward_eval(inputs))
moved = float((statistics - before).abs().max())
ema.copy_params_from_model_to_ema()
ema.eval()
after_eval = far(ema.forward_eval(inputs))
print(f"ema-pytorch {version('ema-pytorch')}, torch {torch.__version__}")
print(f"forward_eval() twice, off from eval mode by {first:.2f} and {second:.2f} of the largest output;")
print(f"running means move by up to {moved:.2g}; after EMA.eval() it is off by {after_eval:.1g}")
as_described = min(first, second) > 0.1 and first != second and moved > 0 and after_eval < 1e-6
sys.exit(0 if as_described else 1)
PYTHON
