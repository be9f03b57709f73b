#!/usr/bin/env bash
# fast-weight-attention 0.3.1: the last position of every call is computed in another way than all others.
#
# The token that completes a chunk asks with a learned vector, zero at first, in place of its own query.
# Without a chunk_size the whole call is the chunk, so this is the last token of any sequence. A causal
# model trained on whole sequences meets it at one position of each; generation, which reads the last
# position, at all. With use_boundary_embed=False a prefix gives what the whole sequence gives.
#
# Needs a Python with pip (PYTHON=python3 is the default). torch is taken from it, or installed.
# Exit code 0: it behaves as described; 1: it does not any more; 2: it could not be installed.
set -euo pipefail
python=${PYTHON:-python3}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
pip=("$python" -m pip install --quiet --disable-pip-version-check --target "$folder")
"${pip[@]}" --no-deps fast-weight-attention==0.3.1 adam-atan2-pytorch==0.4.1 torch-einops-utils==0.2.0 \
    einx==0.4.3 einops==0.8.2 frozendict==2.5.1 || exit 2
"$python" -c 'import torch' 2>/dev/null || "${pip[@]}" torch==2.13.0 || exit 2
cd "$folder"
PYTHONPATH="$folder" OMP_NUM_THREADS=1 "$python" - <<'PYTHON'
import sys
from importlib.metadata import version

import torch
from fast_weight_attention import FastWeightAttention

LENGTH, WIDTH = 24, 32
torch.set_num_threads(1)
print(f"fast-weight-attention {version('fast-weight-attention')}, torch {torch.__version__}")
print("outputs of a prefix against those of the whole sequence, off by this much of the largest:")
far = {}
for boundary in (True, False):
    torch.manual_seed(0)
    options = {"dim_head": 16, "heads": 2, "causal": True, "use_boundary_embed": boundary}
    model = FastWeightAttention(WIDTH, **options).eval()
    inputs = torch.randn(2, LENGTH, WIDTH)
    before, last = [], []
    with torch.no_grad():
        whole = model(inputs)
        for length in range(2, LENGTH):
            moved = (model(inputs[:, :length]) - whole[:, :length]).abs().amax((0, 2)) / whole.abs().max()
            before.append(moved[:-1].max().item())
            last.append(moved[-1].item())
    far[boundary] = min(last), max(last), max(before)
    print(
        f"use_boundary_embed={boundary}: last position {min(last):.1g} to {max(last):.1g}, "
        f"all before it at most {max(before):.1g}"
    )
as_described = far[True][0] > 0.05 and max(far[True][2], far[False][1], far[False][2]) < 1e-5
sys.exit(0 if as_described else 1)
PYTHON
