#!/usr/bin/env bash
# nystrom-attention 0.0.14: a mask that hides nothing changes outputs, and so do the batch's other sequences.
#
# A sequence is padded to a multiple of num_landmarks, 256 by default. Without a mask the padding takes
# part: its zeros are keys, values and landmarks. A mask of True everywhere keeps it out, so that both
# calls differ, unless the length is a multiple. And the iteration for the inverse starts from the largest
# sums of the whole batch; after its six steps a sequence beside larger ones is off by per cents.
#
# Needs a Python with pip (PYTHON=python3 is the default). torch is taken from it, or installed.
# Exit code 0: it behaves as described; 1: it does not any more; 2: it could not be installed.
set -euo pipefail
python=${PYTHON:-python3}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
pip=("$python" -m pip install --quiet --disable-pip-version-check --target "$folder")
"${pip[@]}" --no-deps nystrom-attention==0.0.14 einops==0.8.2 || exit 2
"$python" -c 'import torch' 2>/dev/null || "${pip[@]}" torch==2.13.0 || exit 2
cd "$folder"
PYTHONPATH="$folder" OMP_NUM_THREADS=1 "$python" - <<'PYTHON'
import sys
from importlib.metadata import version

import torch
from nystrom_attention import NystromAttention

torch.manual_seed(0)
torch.set_num_threads(1)
print(f"nystrom-attention {version('nystrom-attention')}, torch {torch.__version__}")
masked, beside = {}, {}
for landmarks, length in ((256, 256), (256, 100), (64, 200)):
    layer = NystromAttention(dim=32, dim_head=16, heads=2, num_landmarks=landmarks).eval()
    inputs = torch.randn(3, length, 32)
    louder = torch.cat([inputs[:1], 3 * inputs[1:]])
    with torch.no_grad():
        outputs = layer(inputs)
        with_mask = layer(inputs, mask=torch.ones(3, length, dtype=torch.bool))
        largest = outputs.abs().max()
        masked[length % landmarks == 0] = far = float((with_mask - outputs).abs().max() / largest)
        beside[length] = float((layer(louder)[0] - outputs[0]).abs().max() / largest)
    print(f"{landmarks} landmarks, {length} tokens, how far outputs move, by the largest:")
    print(f"  with a mask that hides nothing {far:.1g}")
    print(f"  those of sequence 0, where the others are 3 times as large, {beside[length]:.1g}")
as_described = masked[True] < 1e-5 and masked[False] > 0.01 and min(beside.values()) > 1e-3
sys.exit(0 if as_described else 1)
PYTHON
