#!/usr/bin/env bash
# memodo 1.0.0: the delta-rule memories of a MemodoLayer get no input, so that it remembers one token.
#
# The loop over the heads hands each one the output of the head before it, and the first one a constant
# (a bias of zeros), never the tokens. So the output at a position depends on the token there and on the
# one before it, which the token shift and the gate bring in. The memories that the layer returns are the
# same for every sequence. With its default use_residual=True the output has time first, (time, batch,
# channels) for an input of (batch, time, channels), and a second layer takes the batch for time.
#
# Needs a Python with pip (PYTHON=python3 is the default). torch is taken from it, or installed.
# Exit code 0: it behaves as described; 1: it does not any more; 2: it could not be installed.
set -euo pipefail
python=${PYTHON:-python3}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
pip=("$python" -m pip install --quiet --disable-pip-version-check --target "$folder")
"${pip[@]}" --no-deps memodo==1.0.0 || exit 2
"$python" -c 'import torch' 2>/dev/null || "${pip[@]}" torch==2.13.0 || exit 2
cd "$folder"
PYTHONPATH="$folder" OMP_NUM_THREADS=1 "$python" - <<'PYTHON'
import sys
from importlib.metadata import version

import torch
from memodo import MemodoLayer

BATCH, LENGTH, WIDTH = 3, 10, 16
torch.manual_seed(0)
torch.set_num_threads(1)
layer = MemodoLayer(WIDTH, attn_feats=[8, 8], lerp_feats=8, gating_feats=8, use_residual=False)
stack = [MemodoLayer(WIDTH, attn_feats=[8, 8], lerp_feats=8, gating_feats=8) for _ in range(2)]
inputs = torch.randn(BATCH, LENGTH, WIDTH)
reach, memories_move, largest = 0, 0.0, 0.0
with torch.no_grad():
    outputs, (_, *memories) = layer(inputs)
    for position in range(LENGTH):
        changed = inputs.clone()
        changed[:, position] = torch.randn(BATCH, WIDTH)
        others, (_, *other_memories) = layer(changed)
        moved = (others - outputs).abs().amax((0, 2))
        largest = max(largest, float(moved.max()))
        reach = max(reach, int(moved.nonzero().max()) - position)
        for one, other in zip(memories, other_memories):
            memories_move = max(memories_move, float((one - other).abs().max()))

    def stacked(x):
        for each in stack:
            x = each(x)[0]
        return x

    one_layer = tuple(stack[0](inputs)[0].shape)
    neighbour = inputs.clone()
    neighbour[0] = torch.randn(LENGTH, WIDTH)
    beside = (stacked(neighbour) - stacked(inputs))[1].abs().max().item()
print(f"memodo {version('memodo')}, torch {torch.__version__}")
print(f"a token changed: outputs move by up to {largest:.1g}, at most {reach} position after it;")
print(f"the memories that the layer returns move by {memories_move}")
print(f"by default: input {tuple(inputs.shape)}, output {one_layer}")
print(f"two such layers: sequence 0 changed, those of sequence 1 move by {beside:.1g}")
as_described = reach == 1 and memories_move == 0.0 < largest and one_layer == (LENGTH, BATCH, WIDTH)
sys.exit(0 if as_described and beside > 1e-4 else 1)
PYTHON
