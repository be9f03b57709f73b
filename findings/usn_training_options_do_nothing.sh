#!/usr/bin/env bash
# usn 0.3.2: a curriculum of lengths, bounds on states and losses, and averaged weights are options alone.
#
# USNTrainingConfig takes sequence_curriculum, stability_mode, loss_spike_threshold, state_max_norm and
# use_ema, and USNTrainer reads none of them. A training that should begin at two tokens sees as many
# tokens and ends in the same weights, bit for bit; so does one that should skip every batch as a spike and
# hold states at a norm of 0.001; and a checkpoint with use_ema has no second set of weights.
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

LENGTH, LETTERS, STEPS = 16, 8, 6
torch.set_num_threads(1)
CHANGES = {
    "a curriculum from 2 tokens": {
        "sequence_curriculum": True,
        "curriculum_start_len": 2,
        "curriculum_end_len": LENGTH,
        "curriculum_warmup_steps": 1000,
    },
    "bounds that nothing meets": {
        "stability_mode": True,
        "loss_spike_threshold": 1e-6,
        "state_max_norm": 1e-3,
    },
    "averaged weights": {"use_ema": True, "ema_decay": 0.5},
    "another learning rate": {"learning_rate": 1e-2},
}
torch.manual_seed(1)
rows = torch.randint(LETTERS, (16, LENGTH + 1))
valid = torch.ones(LENGTH, dtype=torch.bool)
samples = [{"input_ids": row[:-1], "targets": row[1:], "padding_mask": valid} for row in rows]


def numbers_in(value):
    """How many numbers the tensors of a checkpoint have, without those of random generators."""
    if torch.is_tensor(value):
        return value.numel() if value.is_floating_point() else 0
    if isinstance(value, dict):
        return sum(map(numbers_in, value.values()))
    return sum(map(numbers_in, value)) if isinstance(value, (list, tuple)) else 0


def trained(**changed):
    torch.manual_seed(0)
    sizes = {"num_layers": 1, "d_model": 16, "d_s": 8, "k": 4, "d_ff": 32}
    model = USNModel(USNConfig(**sizes, vocab_size=LETTERS, max_seq_len=LENGTH))
    options = {"batch_size": 4, "max_steps": STEPS, "warmup_steps": 0, "checkpoint_interval": 0}
    options |= {"mixed_precision": "none", "learning_rate": 1e-3} | changed
    trainer = USNTrainer(model, samples, USNTrainingConfig(**options))
    tokens = trainer.train()["total_tokens"]
    trainer.save_checkpoint("checkpoint.pt")
    kept = numbers_in(torch.load("checkpoint.pt", weights_only=False))
    return torch.cat([weights.detach().flatten() for weights in model.parameters()]), tokens, kept


print(f"usn {version('usn')}, torch {torch.__version__}; {STEPS} steps each")
plain, plain_tokens, plain_kept = trained()
print(f"  no option: {plain_tokens} tokens, {plain_kept} numbers in the checkpoint")
nothing = {}
for name, changes in CHANGES.items():
    weights, tokens, kept = trained(**changes)
    nothing[name] = torch.equal(weights, plain) and (tokens, kept) == (plain_tokens, plain_kept)
    equal = "the same weights" if torch.equal(weights, plain) else "other weights"
    print(f"  {name}: {tokens} tokens, {kept} numbers in the checkpoint, {equal}")
acts = not nothing.pop("another learning rate")
sys.exit(0 if acts and all(nothing.values()) else 1)
PYTHON
