#!/usr/bin/env bash
# auto-esn 0.0.7: importing its data sets makes every model built afterwards float64.
#
# auto_esn.datasets.predefined imports a module that calls torch.set_default_dtype(torch.double), for the
# whole process. A torch.nn.LSTM of another part of the program is in float32 if it is built before that
# import, and in float64 after it: twice the memory, other initial weights from the same seed, and an error
# where float32 inputs meet it. Importing the networks alone does not do it.
#
# Needs a Python with pip (PYTHON=python3 is the default). torch is taken from it, or installed.
# Exit code 0: it behaves as described; 1: it does not any more; 2: it could not be installed.
set -euo pipefail
python=${PYTHON:-python3}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
pip=("$python" -m pip install --quiet --disable-pip-version-check --target "$folder")
"$python" -c 'import torch' 2>/dev/null || "${pip[@]}" torch==2.13.0 || exit 2
"$python" -c 'import pandas' 2>/dev/null || "${pip[@]}" pandas || exit 2
"${pip[@]}" --no-deps auto-esn==0.0.7 || exit 2
cd "$folder"
PYTHONPATH="$folder" OMP_NUM_THREADS=1 "$python" - <<'PYTHON'
import sys
from importlib.metadata import version

import torch

torch.set_num_threads(1)


def model():
    torch.manual_seed(0)
    return torch.nn.LSTM(4, 8)


def same_numbers(one, other):
    pairs = zip(one.parameters(), other.parameters())
    return all(torch.allclose(a.double(), b.double(), atol=1e-6) for a, b in pairs)


built = {"before any import": model()}
import auto_esn.esn.reservoir.util

built["after the networks' import"] = model()
import auto_esn.datasets.predefined

built["after the data sets' import"] = model()
print(f"auto-esn {version('auto-esn')}, torch {torch.__version__}; torch.nn.LSTM(4, 8) from seed 0")
first = built["before any import"]
for name, lstm in built.items():
    dtype = lstm.weight_ih_l0.dtype
    print(f"  {name}: {dtype}, {'the same' if same_numbers(lstm, first) else 'other'} initial weights")
last = built["after the data sets' import"]
try:
    last(torch.zeros(3, 1, 4, dtype=torch.float32))
    error = "no error"
except (RuntimeError, ValueError) as raised:
    error = f"{type(raised).__name__}: {str(raised).splitlines()[0]}"
print(f"  float32 inputs: {error}")
dtypes = [lstm.weight_ih_l0.dtype for lstm in built.values()]
as_described = dtypes == [torch.float32, torch.float32, torch.float64] and not same_numbers(last, first)
sys.exit(0 if as_described else 1)
PYTHON
