#!/usr/bin/env bash
# samovar-var 0.1.0: the first of the betas of a training has no effect; its schedule writes over it.
#
# TrainConfig says "AdamW, beta = (0.9, 0.95)" and takes betas. Its trainer gives them to AdamW, and then
# builds torch's OneCycleLR, which cycles the momentum too unless it is told not to: it sets the
# first beta to 0.95 at once and takes it to 0.85 and back. So no training has 0.9 as documented, and one
# with 0.1 ends in the same weights, bit for bit. The second beta acts.
#
# Needs a Python with pip (PYTHON=python3 is the default). torch is taken from it, or installed.
# Exit code 0: it behaves as described; 1: it does not any more; 2: it could not be installed.
set -euo pipefail
python=${PYTHON:-python3}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
pip=("$python" -m pip install --quiet --disable-pip-version-check --target "$folder")
"${pip[@]}" numpy==2.4.6 scipy==1.17.1 pandas==3.1.1 matplotlib==3.11.2 || exit 2
"${pip[@]}" --no-deps samovar-var==0.1.0 || exit 2
"$python" -c 'import torch' 2>/dev/null || "${pip[@]}" torch==2.13.0 || exit 2
cd "$folder"
PYTHONPATH="$folder" OMP_NUM_THREADS=1 "$python" - <<'PYTHON'
import sys
from importlib.metadata import version

import torch
from samovar import SaMoVARConfig, TrainConfig, Trainer, build_network
from torch.optim.optimizer import register_optimizer_step_pre_hook

SERIES, INPUT, HORIZON = 2, 16, 4
torch.set_num_threads(1)
torch.manual_seed(1)
windows = torch.randn(32, INPUT + HORIZON, SERIES)
batches = [(part[:, :INPUT], part[:, INPUT:]) for part in windows.split(8)]
first_betas = []
register_optimizer_step_pre_hook(
    lambda optimiser, *_: first_betas.append(optimiser.param_groups[0]["betas"][0])
)


def trained(**changed):
    """The weights after a training, and the first beta of each of its steps."""
    torch.manual_seed(0)
    first_betas.clear()
    model = build_network(SaMoVARConfig(n_series=SERIES, input_length=INPUT, horizon=HORIZON))
    Trainer(model, TrainConfig(epochs=8, verbose=0, device="cpu", **changed)).fit(batches)
    return torch.cat([weights.detach().flatten() for weights in model.parameters()]), list(first_betas)


print(f"samovar-var {version('samovar-var')}, torch {torch.__version__}")
plain, betas = trained()
print(f"betas {TrainConfig().betas}, the default: the first is {betas[0]:.2f} at step 1,")
print(f"  {min(betas):.2f} at the least and {betas[-1]:.2f} at step {len(betas)}")
same = {}
for given in ((0.1, 0.95), (0.9, 0.5)):
    same[given] = torch.equal(trained(betas=given)[0], plain)
    print(f"betas {given}: {'the same' if same[given] else 'other'} weights")
sys.exit(0 if same[0.1, 0.95] and not same[0.9, 0.5] and betas[0] == 0.95 else 1)
PYTHON
