#!/usr/bin/env bash
# usn 0.3.2: a validation set of less than a batch has a loss of 0 and a perplexity of 1.
#
# evaluate() leaves out the last batch if it is not full, as the training does. With fewer samples than
# batch_size, 32 by default, nothing is evaluated, and that is told as the best loss there is. Of more
# samples the loss is that of the full batches, whatever the others are.
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

LENGTH, LETTERS = 16, 8
torch.manual_seed(0)
torch.set_num_threads(1)
sizes = {"num_layers": 1, "d_model": 16, "d_s": 8, "k": 4, "d_ff": 32}
config = USNConfig(**sizes, vocab_size=LETTERS, max_seq_len=LENGTH)
model = USNModel(config).eval()
options = USNTrainingConfig(mixed_precision="none")


def samples(number):
    tokens = torch.randint(LETTERS, (number, LENGTH + 1))
    valid = torch.ones(LENGTH, dtype=torch.bool)
    return [{"input_ids": row[:-1], "targets": row[1:], "padding_mask": valid} for row in tokens]


def told(data):
    return USNTrainer(model, data, options, data).evaluate()


@torch.no_grad()
def true_loss(data):
    """The mean cross-entropy over all tokens."""
    logits, _ = model(torch.stack([sample["input_ids"] for sample in data]))
    targets = torch.stack([sample["targets"] for sample in data])
    return torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten()).item()


print(f"usn {version('usn')}, torch {torch.__version__}; batch_size {options.batch_size}, the default")
off = {}
for number in (31, 32, 40):
    data = samples(number)
    found = told(data)
    off[number] = abs(found["val_loss"] - true_loss(data))
    print(
        f"{number} samples: loss {found['val_loss']:.4f}, perplexity {found['val_perplexity']:.4f}; "
        f"by hand {true_loss(data):.4f}"
    )
    if number == 40:
        other_rest = told(data[:32] + samples(8)) == found
print(f"40 samples, of which the last 8 are changed: the same loss {other_rest}")
as_described = off[31] > 1 and off[32] < 1e-5 < off[40] and other_rest
sys.exit(0 if as_described else 1)
PYTHON
