#!/usr/bin/env bash
# titans-memory 0.3.0: without momentum and decay, a chunk leaves only its last token in the memory.
#
# NeuralMemory(use_momentum=False, use_decay=False) is the plain rule: each token adds its gradient
# step to the memory. Of the 16 tokens of a chunk only the last reaches later chunks: changing the
# others leaves all outputs of later chunks the same, bit for bit.
#
# Needs a Python with pip (PYTHON=python3 is the default). torch is taken from it, or installed.
# Exit code 0: it behaves as described; 1: it does not any more; 2: it could not be installed.
set -euo pipefail
python=${PYTHON:-python3}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
pip=("$python" -m pip install --quiet --disable-pip-version-check --target "$folder")
"${pip[@]}" --no-deps titans-memory==0.3.0 || exit 2
"$python" -c 'import torch' 2>/dev/null || "${pip[@]}" torch==2.13.0 || exit 2
cd "$folder"
PYTHONPATH="$folder" OMP_NUM_THREADS=1 "$python" - <<'PYTHON'
import sys
from importlib.metadata import version

import titans
import torch

CHUNK = 16
torch.manual_seed(0)
torch.set_num_threads(1)
memory = titans.NeuralMemory(32, chunk_size=CHUNK, use_momentum=False, use_decay=False).eval()
inputs = torch.randn(1, 3 * CHUNK, 32)
moved = []
with torch.no_grad():
    outputs = memory(inputs)
    for position in range(CHUNK):
        changed = inputs.clone()
        changed[:, position] = torch.randn(32)
        moved.append(float((memory(changed) - outputs)[:, CHUNK + 4 :].abs().max()))
print(f"titans-memory {version('titans-memory')}, torch {torch.__version__}")
print("position changed in the first chunk: how far outputs of later chunks move")
for position, distance in enumerate(moved):
    print(f"  {position:2d}: {distance:.2g}")
# The convolutions are three or four tokens wide, so neighbours of the last token reach it.
without = sum(distance == 0.0 for distance in moved)
print(f"{without} of {CHUNK} tokens leave nothing")
sys.exit(0 if without >= CHUNK - 4 and moved[-1] > 1e-3 else 1)
PYTHON
