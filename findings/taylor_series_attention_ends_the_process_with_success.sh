#!/usr/bin/env bash
# taylor-series-linear-attention 0.2.0: a causal layer ends the process, with the exit code of success.
#
# TaylorSeriesLinearAttn(causal=True) needs pytorch-fast-transformers, which is not among its dependencies.
# Where it is missing the constructor prints a line and calls exit(), in place of an ImportError. The exit
# code is 0, so that a sweep counts the run as done, and "except Exception" does not see it.
#
# Needs a Python with pip (PYTHON=python3 is the default). torch is taken from it, or installed.
# Exit code 0: it behaves as described; 1: it does not any more; 2: it could not be installed.
set -euo pipefail
python=${PYTHON:-python3}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
pip=("$python" -m pip install --quiet --disable-pip-version-check --target "$folder")
"${pip[@]}" --no-deps taylor-series-linear-attention==0.2.0 rotary-embedding-torch==0.9.1 einops==0.8.2 \
    jaxtyping==0.3.11 wadler-lindig==0.1.8 || exit 2
"$python" -c 'import torch' 2>/dev/null || "${pip[@]}" torch==2.13.0 || exit 2
cd "$folder"
PYTHONPATH="$folder" OMP_NUM_THREADS=1 "$python" - <<'PYTHON'
import subprocess
import sys
from importlib.metadata import requires, version

import torch

CODE = """
from taylor_series_linear_attention import TaylorSeriesLinearAttn
try:
    TaylorSeriesLinearAttn(dim=16, dim_head=4, heads=2, causal={causal})
except Exception as error:
    print("raised", type(error).__name__)
print("went on")
"""


def run(causal):
    done = subprocess.run([sys.executable, "-c", CODE.format(causal=causal)], capture_output=True, text=True)
    return done.returncode, done.stdout.strip()


package = "taylor-series-linear-attention"
named = any("fast-transformers" in name for name in requires(package))
print(f"{package} {version(package)}, torch {torch.__version__}")
print(f"pytorch-fast-transformers among its dependencies: {named}")
found = {causal: run(causal) for causal in (False, True)}
for causal, (code, output) in found.items():
    print(f"causal={causal}: exit code {code}, output: {output}")
as_described = not named and found[False] == (0, "went on") and found[True][0] == 0
sys.exit(0 if as_described and "went on" not in found[True][1] else 1)
PYTHON
