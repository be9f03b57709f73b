#!/usr/bin/env bash
# compressive-transformer-pytorch 0.4.0: keys and values stop training once memory is compressed.
#
# The loss of reconstruction is meant to leave the attention alone, so forward calls detach_() on the
# weight of keys and values. In place, on a parameter, that is for good: requires_grad is False from
# the first segment on that compresses memory. The loss goes on, no error is raised, and the two
# projections stay where they were after the first optimiser step.
#
# Needs a Python with pip (PYTHON=python3 is the default). torch is taken from it, or installed.
# Exit code 0: it behaves as described; 1: it does not any more; 2: it could not be installed.
set -euo pipefail
python=${PYTHON:-python3}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
pip=("$python" -m pip install --quiet --disable-pip-version-check --target "$folder")
"${pip[@]}" --no-deps compressive-transformer-pytorch==0.4.0 mogrifier==0.0.5 einops==0.8.2 || exit 2
"$python" -c 'import torch' 2>/dev/null || "${pip[@]}" torch==2.13.0 || exit 2
cd "$folder"
PYTHONPATH="$folder" OMP_NUM_THREADS=1 "$python" - <<'PYTHON'
import sys
from importlib.metadata import version

import torch
from compressive_transformer_pytorch import CompressiveTransformer
from torch.nn.functional import cross_entropy

LENGTH, SEGMENTS = 16, 5
torch.manual_seed(0)
torch.set_num_threads(1)
model = CompressiveTransformer(
    num_tokens=20, dim=32, seq_len=LENGTH, depth=2, heads=4, mem_len=16, cmem_len=4, cmem_ratio=4
)
names = [name for name, _ in model.named_parameters()]
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.0)
tokens = torch.randint(0, 20, (2, LENGTH * SEGMENTS + 1))
memories, still = None, []
print(f"compressive-transformer-pytorch {version('compressive-transformer-pytorch')}")
for segment in range(SEGMENTS):
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    start = segment * LENGTH
    logits, memories, reconstruction = model(tokens[:, start : start + LENGTH], memories)
    targets = tokens[:, start + 1 : start + LENGTH + 1]
    loss = cross_entropy(logits.transpose(1, 2), targets) + reconstruction.sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    trained = dict(model.named_parameters())
    still = [name for name in names if torch.equal(trained[name], before[name])]
    projections = [name for name in still if "to_kv" in name]
    print(f"segment {segment}: {len(still)} of {len(names)} parameters stay; {projections}")
fixed = [name for name, p in model.named_parameters() if not p.requires_grad]
print(f"requires_grad is False for {fixed}")
expected = [name for name in names if name.endswith("to_kv.weight")]
sys.exit(0 if len(expected) == 2 and fixed == expected and set(expected) <= set(still) else 1)
PYTHON
