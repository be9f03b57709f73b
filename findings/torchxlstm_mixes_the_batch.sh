#!/usr/bin/env bash
# torchxlstm 0.0.3: in an mLSTM a sequence's output depends on the other sequences of its batch.
#
# The normaliser max(|nᵀq|, 1) of one sequence is taken from n.T @ q of the whole batch, (hidden, batch)
# times (batch, hidden), which sums over sequences. So the output of a sequence changes with its
# neighbours, also in eval mode.
#
# Needs a Python with pip (PYTHON=python3 is the default). torch is taken from it, or installed.
# Exit code 0: it behaves as described; 1: it does not any more; 2: it could not be installed.
set -euo pipefail
python=${PYTHON:-python3}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
pip=("$python" -m pip install --quiet --disable-pip-version-check --target "$folder")
"${pip[@]}" --no-deps torchxlstm==0.0.3 || exit 2
"$python" -c 'import torch' 2>/dev/null || "${pip[@]}" torch==2.13.0 || exit 2
cd "$folder"
PYTHONPATH="$folder" OMP_NUM_THREADS=1 "$python" - <<'PYTHON'
import sys
from importlib.metadata import version

import torch
from torchxlstm import mLSTM

torch.manual_seed(0)
torch.set_num_threads(1)
model = mLSTM(input_size=32, head_size=16, num_heads=2, batch_first=True).eval()
batch = torch.randn(4, 12, 32)
beside_others = batch.clone()
beside_others[1:] = torch.randn(3, 12, 32)
with torch.no_grad():
    outputs = model(batch)[0][0]
    moved = float((model(beside_others)[0][0] - outputs).abs().max() / outputs.abs().max())
    alone = float((model(batch[:1])[0][0] - outputs).abs().max() / outputs.abs().max())
print(f"torchxlstm {version('torchxlstm')}, torch {torch.__version__}")
print(f"sequence 0 beside three other sequences: its outputs move by {moved:.3f} of the largest")
print(f"sequence 0 alone: by {alone:.3f}")
sys.exit(0 if min(moved, alone) > 1e-2 else 1)
PYTHON
