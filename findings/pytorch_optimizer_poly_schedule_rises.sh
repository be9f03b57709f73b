#!/usr/bin/env bash
# pytorch-optimizer 4.1.0: PolyScheduler raises the learning rate over max_lr, and never lowers it.
#
# torch's PolynomialLR, and the linear and cosine schedules beside this one, go from max_lr to min_lr over
# their steps. This one takes a power of the number of steps since warmup, as its docstring says,
# not of the share of steps that is left. At its default order of 0.5 the rate is 10 times max_lr
# after 100 steps and 100 times max_lr after 10,000; t_max has no effect.
#
# Needs a Python with pip (PYTHON=python3 is the default). torch is taken from it, or installed.
# Exit code 0: it behaves as described; 1: it does not any more; 2: it could not be installed.
set -euo pipefail
python=${PYTHON:-python3}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
pip=("$python" -m pip install --quiet --disable-pip-version-check --target "$folder")
"${pip[@]}" --no-deps pytorch-optimizer==4.1.0 numpy==2.4.6 || exit 2
"$python" -c 'import torch' 2>/dev/null || "${pip[@]}" torch==2.13.0 || exit 2
cd "$folder"
PYTHONPATH="$folder" OMP_NUM_THREADS=1 "$python" - <<'PYTHON'
import sys
from importlib.metadata import version

import torch
from pytorch_optimizer import CosineScheduler, LinearScheduler, PolyScheduler

STEPS, HIGHEST = 10_000, 1e-3


def rates(kind, steps=STEPS, **options):
    """The learning rate of each step."""
    optimiser = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=HIGHEST)
    scheduler = kind(optimiser, t_max=steps, max_lr=HIGHEST, min_lr=0.0, **options)
    return [scheduler.step() for _ in range(STEPS + 1)]


def of_torch():
    optimiser = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=HIGHEST)
    scheduler = torch.optim.lr_scheduler.PolynomialLR(optimiser, STEPS, power=0.5)
    found = []
    for _ in range(STEPS + 1):
        found.append(optimiser.param_groups[0]["lr"])
        optimiser.step()
        scheduler.step()
    return found


schedules = {
    "LinearScheduler": rates(LinearScheduler),
    "CosineScheduler": rates(CosineScheduler),
    "torch's PolynomialLR": of_torch(),
    "PolyScheduler": rates(PolyScheduler),
}
shorter = rates(PolyScheduler, steps=100)
print(f"pytorch-optimizer {version('pytorch-optimizer')}, torch {torch.__version__}")
print(f"learning rate over max_lr at steps 0, 1, 100 and {STEPS} of {STEPS}:")
for name, found in schedules.items():
    print(f"  {name}: " + ", ".join(f"{found[step] / HIGHEST:.3g}" for step in (0, 1, 100, STEPS)))
poly = schedules.pop("PolyScheduler")
print(f"PolyScheduler with t_max=100 instead: the same rates {shorter == poly}")
falls = all(max(found) <= HIGHEST and found[-1] < 1e-9 for found in schedules.values())
as_described = falls and shorter == poly and abs(poly[-1] / HIGHEST - 100) < 0.1
sys.exit(0 if as_described else 1)
PYTHON
