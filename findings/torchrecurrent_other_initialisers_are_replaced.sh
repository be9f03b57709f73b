#!/usr/bin/env bash
# torchrecurrent 0.2.5: an initialiser that it does not know by name is replaced by xavier_uniform.
#
# Cells take kernel_init and recurrent_kernel_init, documented as initialisers like those of torch.nn.init.
# Nine of these are known. trunc_normal_, one with an argument bound to it, or a function of one's own are
# taken without a word, and the weights are those of the default, bit for bit.
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
import functools
import sys
from importlib.metadata import version

import torch
from torch.nn import init
from torchrecurrent import MGUCell


def halves(weight):
    """A function of one's own: every weight is a half."""
    return init.constant_(weight, 0.5)


INITIALISERS = {
    "orthogonal_": init.orthogonal_,
    "normal_": init.normal_,
    "trunc_normal_": init.trunc_normal_,
    "sparse_, sparsity 0.9": functools.partial(init.sparse_, sparsity=0.9),
    "orthogonal_, gain 3": functools.partial(init.orthogonal_, gain=3.0),
    "a function that sets 0.5": halves,
}


def weights(initialiser=None):
    torch.manual_seed(0)
    return MGUCell(8, 8, recurrent_kernel_init=initialiser).weight_hh.detach()


torch.set_num_threads(1)
print(f"torchrecurrent {version('torchrecurrent')}, torch {torch.__version__}")
print("MGUCell, recurrent_kernel_init:")
replaced = {}
for name, initialiser in INITIALISERS.items():
    given = weights(initialiser)
    replaced[name] = torch.equal(given, weights(init.xavier_uniform_))
    print(f"  {name}: {'the weights of xavier_uniform_' if replaced[name] else 'other weights'}")
known = [replaced.pop(name) for name in ("orthogonal_", "normal_")]
sys.exit(0 if all(replaced.values()) and not any(known) else 1)
PYTHON
