#!/usr/bin/env bash
# usn 0.3.2: early stopping ends a training whose validation loss falls at every evaluation.
#
# After an evaluation the trainer first keeps a lower loss as the best one, and then asks whether the loss
# is below the best by early_stopping_min_delta, which it never is by then. So with a patience of n each
# training ends at its n-th evaluation, whatever the losses are.
#
# Needs a Python with pip (PYTHON=python3 is the default). torch is taken from it, or installed.
# Exit code 0: it behaves as described; 1: it does not any more; 2: it could not be installed.
set -euo pipefail
python=${PYTHON:-python3}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
pip=("$python" -m pip install --quiet --disable-pip-version-check --target "$folder")
"${pip[@]}" --no-deps usn==0.3.2 numpy==2.4.6 || exit 2
"$python" -c 'import torch' 2>/dev/null || "${pip[@]}" torch==2.13.0 || exit 2
cd "$folder"
PYTHONPATH="$folder" OMP_NUM_THREADS=1 "$python" - <<'PYTHON'
import sys
from importlib.metadata import version

import torch
from usn import USNConfig, USNModel, USNTrainer, USNTrainingConfig

LENGTH, PATIENCE, STEPS = 16, 3, 60
torch.manual_seed(0)
torch.set_num_threads(1)


def cycles(number):
    """Sequences that count through 8 letters, each from a letter of its own."""
    samples = []
    for start in range(number):
        tokens = (torch.arange(LENGTH + 1) + start) % 8
        valid = torch.ones(LENGTH, dtype=torch.bool)
        samples.append({"input_ids": tokens[:-1], "targets": tokens[1:], "padding_mask": valid})
    return samples


class Recorded(USNTrainer):
    """The trainer, and what its evaluations give."""

    def evaluate(self):
        found = super().evaluate()
        self.losses.append(found["val_loss"])
        return found


def training(patience):
    config = USNConfig(num_layers=1, d_model=16, d_s=8, k=4, d_ff=32, vocab_size=8, max_seq_len=LENGTH)
    options = {"batch_size": 8, "max_steps": STEPS, "warmup_steps": 0, "eval_interval": 5}
    options |= {"learning_rate": 1e-3, "mixed_precision": "none", "checkpoint_interval": 0}
    options |= {"early_stopping_patience": patience, "scheduler_type": "constant"}
    trainer = Recorded(USNModel(config), cycles(32), USNTrainingConfig(**options), cycles(8))
    trainer.losses = []
    result = trainer.train()
    return result["total_steps"], result["stopped_early"], trainer.losses


stopped_at, stopped, losses = training(PATIENCE)
whole, _, all_losses = training(0)
drops = [before - after for before, after in zip(losses, losses[1:])]
print(f"usn {version('usn')}, torch {torch.__version__}")
print(f"patience {PATIENCE}: stopped early {stopped}, at step {stopped_at} of {STEPS}; validation losses")
print("  " + ", ".join(f"{loss:.3f}" for loss in losses))
print(f"patience 0: {whole} steps, the last validation loss {all_losses[-1]:.3f}")
as_described = stopped and len(losses) == PATIENCE and min(drops) > 1e-3 and whole == STEPS
sys.exit(0 if as_described and all_losses[-1] < losses[-1] else 1)
PYTHON
