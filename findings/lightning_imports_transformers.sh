#!/usr/bin/env bash
# lightning 2.6.6 with torchmetrics 1.9.0: `import lightning.pytorch` imports transformers, matplotlib
# and scipy.signal too, wherever these are installed, though a training uses nothing of them. It looks
# whether torchmetrics can compute in half precision, and torchmetrics imports its metrics of texts,
# audio and plots, each with the packages of its extras. Every worker of a sweep pays for it.
#
# Needs a Python with pip (PYTHON=python3 is the default). torch is taken from it, or installed.
# Exit code 0: it behaves as described; 1: it does not any more; 2: it could not be installed.
set -euo pipefail
python=${PYTHON:-python3}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
pip=("$python" -m pip install --quiet --disable-pip-version-check --target "$folder")
"$python" -c 'import torch' 2>/dev/null || "${pip[@]}" torch==2.13.0 || exit 2
"${pip[@]}" transformers==5.23.0 scipy==1.17.1 matplotlib==3.11.2 numpy==2.4.6 || exit 2
"${pip[@]}" --no-deps --upgrade lightning==2.6.6 pytorch-lightning==2.6.6 torchmetrics==1.9.0 \
    lightning-utilities==0.15.3 fsspec==2026.9.0 || exit 2
cd "$folder"
cat > imports.py <<'PYTHON'
import sys
import time
from importlib.metadata import version

import torch

PACKAGES = ("transformers", "matplotlib", "scipy.signal")
before = [name for name in PACKAGES if name in sys.modules]
if sys.argv[1:] == ["first"]:
    import matplotlib
    import scipy.signal
    import transformers
start = time.process_time()
import lightning.pytorch

seconds = time.process_time() - start
after = [name for name in PACKAGES if name in sys.modules]
versions = ", ".join(f"{p} {version(p)}" for p in ("lightning", "torchmetrics", "transformers"))
print(f"{versions}, torch {torch.__version__}")
print(f"imported before it: {before}; after it: {after}")
print(f"import lightning.pytorch: {seconds:.1f} s of a processor, with torch imported before"
      + (" and these three too" if sys.argv[1:] else ""))
sys.exit(0 if not before and after == list(PACKAGES) else 1)
PYTHON
PYTHONPATH="$folder" OMP_NUM_THREADS=1 "$python" -B imports.py first || exit 1
PYTHONPATH="$folder" OMP_NUM_THREADS=1 "$python" -B imports.py
