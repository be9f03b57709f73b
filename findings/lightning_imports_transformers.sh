#!/usr/bin/env bash
# lightning 2.6.6 with torchmetrics 1.9.0: `import lightning.pytorch` imports transformers, matplotlib
# and scipy.signal too, if these are installed, though a training uses nothing of them. Lightning asks
# whether torchmetrics can compute in half precision, and torchmetrics imports its metrics of texts,
# audio and plots, each with the packages of its extras. Every worker of a sweep pays for these imports.
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
"${pip[@]}" --upgrade --no-deps lightning==2.6.6 pytorch-lightning==2.6.6 torchmetrics==1.9.0 \
    lightning-utilities==0.15.3 fsspec==2026.9.0 || exit 2
cd "$folder"
PYTHONPATH="$folder" OMP_NUM_THREADS=1 "$python" -B - <<'PYTHON'
import subprocess
import sys
from importlib.metadata import version

PACKAGES = ("transformers", "matplotlib", "scipy.signal")
TIMED = """
import sys, time
import torch
{first}
before = [name for name in {packages} if name in sys.modules]
start = time.process_time()
import lightning.pytorch
seconds = time.process_time() - start
after = [name for name in {packages} if name in sys.modules]
print(before, after, f"{{seconds:.1f}}", sep="|")
"""


def imported(first: str) -> list[str]:
    """What is imported before and after lightning.pytorch, and its seconds of a processor."""
    code = TIMED.format(first=first, packages=PACKAGES)
    done = subprocess.run([sys.executable, "-B", "-c", code], capture_output=True, text=True)
    return done.stdout.strip().split("|")


imported("")  # files are read once before anything is timed
before, after, seconds = imported("")
*_, without = imported("import transformers, matplotlib, scipy.signal")
names = ("lightning", "torchmetrics", "transformers", "torch")
print(", ".join(f"{name} {version(name)}" for name in names))
print(f"with torch imported: of {PACKAGES} are there before it {before}, after it {after}")
print(f"import lightning.pytorch takes {seconds} s of a processor, and {without} s if these are there")
sys.exit(0 if before == "[]" and after == str(list(PACKAGES)) else 1)
PYTHON
