#!/usr/bin/env bash
# dnc 1.1.0: within a call the controller never sees what was read from memory.
#
# A differentiable neural computer gives its controller the input and what it read one step before.
# Here all inputs of a sequence get what was read before the call, which is zeros at its start, so
# that the columns of the controller for what was read have no gradient. One token at a time, with
# the state handed on, it does see it: the same weights are then another network.
#
# Needs a Python with pip (PYTHON=python3 is the default). torch is taken from it, or installed.
# Exit code 0: it behaves as described; 1: it does not any more; 2: it could not be installed.
set -euo pipefail
python=${PYTHON:-python3}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
pip=("$python" -m pip install --quiet --disable-pip-version-check --target "$folder")
"${pip[@]}" --no-deps dnc==1.1.0 || exit 2
"$python" -c 'import torch, numpy' 2>/dev/null || "${pip[@]}" torch==2.13.0 numpy==2.3.5 || exit 2
cd "$folder"
PYTHONPATH="$folder" OMP_NUM_THREADS=1 "$python" - <<'PYTHON'
import sys
from importlib.metadata import version

import torch
from dnc import DNC

INPUTS, HIDDEN, STEPS = 4, 16, 8
torch.manual_seed(0)
torch.set_num_threads(1)
model = DNC(INPUTS, HIDDEN, nr_cells=8, cell_size=6, read_heads=2, num_hidden_layers=1)
# Larger weights, so that it writes and reads more than a trace.
with torch.no_grad():
    for parameter in model.parameters():
        parameter.mul_(4.0)
inputs = torch.randn(2, STEPS, INPUTS)


def start():
    """A state that is equal each time: without one, the controller begins at random."""
    return [(torch.zeros(1, 2, HIDDEN), torch.zeros(1, 2, HIDDEN))], None, None


whole, _ = model(inputs, start())
whole.square().sum().backward()
gradient = model.rnns[0].weight_ih_l0.grad.abs()
of_inputs, of_reads = float(gradient[:, :INPUTS].max()), float(gradient[:, INPUTS:].max())
with torch.no_grad():
    again, _ = model(inputs, start())
    same = float((again - whole).abs().max())
    state, outputs = start(), []
    for step in range(STEPS):
        output, state = model(inputs[:, step : step + 1], state)
        outputs.append(output)
distance = (torch.cat(outputs, 1) - again).abs().amax((0, 2))
print(f"dnc {version('dnc')}, torch {torch.__version__}")
print(f"largest gradient of the controller's columns: inputs {of_inputs:.2g}, reads {of_reads:.2g}")
print(f"the same call twice: off by {same:.2g}")
print("step by step beside one call, by position:", *(f"{d:.2g}" for d in distance.tolist()))
differs = float(distance[1:].max()) > 1e-3 and float(distance[0]) < 1e-5
sys.exit(0 if same < 1e-5 and differs and of_reads == 0.0 and of_inputs > 0.0 else 1)
PYTHON
