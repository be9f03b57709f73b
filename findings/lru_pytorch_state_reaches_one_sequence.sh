#!/usr/bin/env bash
# LRU-pytorch 0.1.3: a state given to a batch reaches its first sequence alone.
#
# LRU()(inputs, state) starts the first sequence from the state and all others from zero.
#
# Needs a Python with pip (PYTHON=python3 is the default). torch is taken from it, or installed.
# Exit code 0: it behaves as described; 1: it does not any more; 2: it could not be installed.
set -euo pipefail
python=${PYTHON:-python3}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
pip=("$python" -m pip install --quiet --disable-pip-version-check --target "$folder")
"${pip[@]}" --no-deps LRU-pytorch==0.1.3 || exit 2
"$python" -c 'import torch' 2>/dev/null || "${pip[@]}" torch==2.13.0 || exit 2
cd "$folder"
PYTHONPATH="$folder" OMP_NUM_THREADS=1 "$python" - <<'PYTHON'
import sys
from importlib.metadata import version

import torch
from LRU_pytorch import LRU

torch.manual_seed(0)
torch.set_num_threads(1)
model = LRU(in_features=4, out_features=4, state_features=8)
inputs = torch.randn(1, 6, 4).expand(3, -1, -1)  # three times the same sequence
state = torch.randn(8, dtype=torch.complex64)
with torch.no_grad():
    from_zero, from_state = model(inputs), model(inputs, state)
moved = (from_state - from_zero).abs().amax((1, 2)).tolist()
print(f"LRU-pytorch {version('LRU-pytorch')}, torch {torch.__version__}")
print("three equal sequences; how far the given state moves the outputs of each:")
print("  " + ", ".join(f"{distance:.3f}" for distance in moved))
sys.exit(0 if moved[0] > 1e-2 and moved[1] == moved[2] == 0.0 else 1)
PYTHON
