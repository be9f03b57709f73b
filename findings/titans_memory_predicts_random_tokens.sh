#!/usr/bin/env bash
# titans-memory 0.3.0: TitansMAC, trained by its own loss, predicts uniformly random tokens.
#
# No model can predict the next of independent uniform tokens better than by chance, a loss of
# ln 16 = 2.77 nats. The loss that TitansMAC gives for model(tokens, labels=tokens) falls
# far below that within 100 steps, since the logits at a position depend on the token after it: the
# convolutions over keys, values and queries are centred, and a chunk is read after all of it is
# written. In generate() that token is not there yet.
#
# Needs a Python with pip (PYTHON=python3 is the default). torch is taken from it, or installed.
# Exit code 0: it behaves as described; 1: it does not any more; 2: it could not be installed.
set -euo pipefail
python=${PYTHON:-python3}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
pip=("$python" -m pip install --quiet --disable-pip-version-check --target "$folder")
"${pip[@]}" --no-deps titans-memory==0.3.0 || exit 2
"$python" -c 'import torch' 2>/dev/null || "${pip[@]}" torch==2.13.0 || exit 2
cd "$folder"
PYTHONPATH="$folder" OMP_NUM_THREADS=1 "$python" - <<'PYTHON'
import math
import sys
from importlib.metadata import version

import titans
import torch

VOCABULARY, STEPS = 16, 100
torch.manual_seed(0)
torch.set_num_threads(1)
model = titans.TitansMAC(
    vocab_size=VOCABULARY, d_model=64, n_layers=1, n_persistent=4, chunk_size=16, max_seq_len=64
)
optimiser = torch.optim.AdamW(model.parameters(), 3e-3)
generator = torch.Generator().manual_seed(1)
losses = []
for _ in range(STEPS):
    tokens = torch.randint(VOCABULARY, (16, 24), generator=generator)
    loss = model(tokens, labels=tokens)["loss"]
    optimiser.zero_grad()
    loss.backward()
    optimiser.step()
    losses.append(loss.item())
loss = sum(losses[-10:]) / 10
model.eval()
with torch.no_grad():
    tokens = torch.randint(VOCABULARY, (16, 24), generator=generator)
    changed = tokens.clone()
    changed[:, 20] = (changed[:, 20] + 1) % VOCABULARY
    logits = model(tokens)["logits"]
    moved = (model(changed)["logits"] - logits).abs().amax((0, 2)) / logits.abs().max()
print(f"titans-memory {version('titans-memory')}, torch {torch.__version__}")
print(f"loss after {STEPS} steps on uniform tokens: {loss:.2f} nats; by chance {math.log(VOCABULARY):.2f}")
print(f"token 20 changed: logits at 19 move by {float(moved[19]):.2f} of the largest logit,")
print(f"at 16 to 18 by {float(moved[16:19].max()):.3f}, before the chunk by {float(moved[:16].max()):.1g}")
sys.exit(0 if loss < 0.5 * math.log(VOCABULARY) and moved[19] > 0.1 else 1)
PYTHON
