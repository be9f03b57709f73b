#!/usr/bin/env bash
# pytorch-tcn 1.2.3: with its default weight_norm, kernel_initializer reaches no dilated convolution.
#
# The initialiser is applied to conv.weight, which weight_norm computes anew from its own two
# parameters. A TCN() has the kernels that torch.nn.Conv1d starts with under every kernel_initializer;
# without weight_norm the initialiser decides them (kaiming and xavier agree where layers are square).
#
# Needs a Python with pip (PYTHON=python3 is the default). torch is taken from it, or installed.
# Exit code 0: it behaves as described; 1: it does not any more; 2: it could not be installed.
set -euo pipefail
python=${PYTHON:-python3}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
pip=("$python" -m pip install --quiet --disable-pip-version-check --target "$folder")
"${pip[@]}" --no-deps pytorch-tcn==1.2.3 numpy || exit 2
"$python" -c 'import torch' 2>/dev/null || "${pip[@]}" torch==2.13.0 || exit 2
cd "$folder"
PYTHONPATH="$folder" OMP_NUM_THREADS=1 "$python" - <<'PYTHON'
import sys
from importlib.metadata import version

import torch
from pytorch_tcn import TCN

INITIALISERS = ("xavier_uniform", "xavier_normal", "kaiming_uniform", "kaiming_normal", "normal")


def kernels(norm, initialiser):
    """The weights that all dilated convolutions of a network apply."""
    torch.manual_seed(0)
    network = TCN(8, [8, 8], use_norm=norm, kernel_initializer=initialiser).eval()
    return torch.cat([m.weight.detach().flatten() for m in network.modules() if isinstance(m, torch.nn.Conv1d)])


torch.set_num_threads(1)
print(f"pytorch-tcn {version('pytorch-tcn')}, torch {torch.__version__}")
different = {}
for norm in ("weight_norm", None):
    print(f"use_norm={norm!r}: standard deviation of the kernels, and whether they are the first's")
    first = kernels(norm, INITIALISERS[0])
    different[norm] = 0
    for initialiser in INITIALISERS:
        weights = kernels(norm, initialiser)
        same = torch.allclose(weights, first, rtol=1e-5, atol=1e-6)
        different[norm] += not same
        print(f"  {initialiser:16} {weights.std().item():.4f} {'the same' if same else 'others'}")
sys.exit(0 if different["weight_norm"] == 0 and different[None] >= 3 else 1)
PYTHON
