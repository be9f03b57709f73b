#!/usr/bin/env bash
# torchrecurrent 0.2.5: the hidden state of LEM reads the cell state of the step before.
#
# Long Expressive Memory computes the new cell state first and the hidden state from it: c(t) in the
# docstring and in the paper (arXiv 2110.04744). The code reads c(t-1), so that what a token writes to the
# cell reaches the hidden state one step later.
#
# Needs a Python with pip (PYTHON=python3 is the default). torch is taken from it, or installed.
# Exit code 0: it behaves as described; 1: it does not any more; 2: it could not be installed.
set -euo pipefail
python=${PYTHON:-python3}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
pip=("$python" -m pip install --quiet --disable-pip-version-check --target "$folder")
"${pip[@]}" --no-deps torchrecurrent==0.2.5 || exit 2
"$python" -c 'import torch' 2>/dev/null || "${pip[@]}" torch==2.13.0 || exit 2
cd "$folder"
PYTHONPATH="$folder" OMP_NUM_THREADS=1 "$python" - <<'PYTHON'
import sys
from importlib.metadata import version

import torch
from torchrecurrent import LEMCell

WIDTH, STEPS = 6, 8
torch.manual_seed(0)
torch.set_num_threads(1)
cell = LEMCell(4, WIDTH, dt=1.0).double()
inputs = torch.randn(STEPS, 3, 4, dtype=torch.float64)


def by_formula(read_new):
    """Hidden states by the formula, with c(t) or c(t-1) where the hidden state reads the cell."""
    h = c = torch.zeros(3, WIDTH, dtype=torch.float64)
    states = []
    for x in inputs:
        first, second, of_c, of_h = (x @ cell.weight_ih.T + cell.bias_ih).chunk(4, 1)
        rec_first, rec_second, rec_c = (h @ cell.weight_hh.T + cell.bias_hh).chunk(3, 1)
        step_h, step_c = torch.sigmoid(first + rec_first), torch.sigmoid(second + rec_second)
        new_c = (1 - step_c) * c + step_c * torch.tanh(of_c + rec_c)
        read = (new_c if read_new else c) @ cell.weight_ch.T + cell.bias_ch
        h, c = (1 - step_h) * h + step_h * torch.tanh(of_h + read), new_c
        states.append(h)
    return torch.stack(states)


with torch.no_grad():
    state, states = None, []
    for x in inputs:
        state = cell(x, state)
        states.append(state[0])
    states = torch.stack(states)
    far = {
        name: float((by_formula(read_new) - states).abs().max() / states.abs().max())
        for name, read_new in (("c(t), as documented", True), ("c(t-1)", False))
    }
print(f"torchrecurrent {version('torchrecurrent')}, torch {torch.__version__}")
print(f"hidden states of {STEPS} steps against the formula, off by this much of the largest:")
for name, distance in far.items():
    print(f"  where the hidden state reads {name}: {distance:.1g}")
sys.exit(0 if far["c(t), as documented"] > 0.01 and far["c(t-1)"] < 1e-12 else 1)
PYTHON
