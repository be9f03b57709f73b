#!/usr/bin/env bash
# routing-transformer 1.6.1: causal=True reads later tokens.
#
# Every cluster of its k-means attention takes the tokens that lie nearest to its mean, among all of
# the sequence. A later token that takes a place there changes what an earlier one attends to, so
# that another last token moves the outputs at nearly all positions before it.
#
# Needs a Python with pip (PYTHON=python3 is the default). torch is taken from it, or installed.
# Exit code 0: it behaves as described; 1: it does not any more; 2: it could not be installed.
set -euo pipefail
python=${PYTHON:-python3}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
pip=("$python" -m pip install --quiet --disable-pip-version-check --target "$folder")
"${pip[@]}" --no-deps routing-transformer==1.6.1 local-attention==1.11.2 mixture-of-experts==0.2.3 product-key-memory==0.3.0 colt5-attention==0.11.2 hyper-connections==0.4.9 einops==0.8.2 || exit 2
"$python" -c 'import torch' 2>/dev/null || "${pip[@]}" torch==2.13.0 || exit 2
cd "$folder"
PYTHONPATH="$folder" OMP_NUM_THREADS=1 "$python" - <<'PYTHON'
import sys
from importlib.metadata import version

import torch
from routing_transformer import RoutingTransformerLM

LENGTH = 64
torch.manual_seed(0)
torch.set_num_threads(1)
model = RoutingTransformerLM(
    num_tokens=20, dim=32, depth=2, max_seq_len=LENGTH, heads=2, window_size=16, causal=True,
    n_local_attn_heads=1, local_attn_window_size=8,
).eval()
tokens = torch.randint(0, 20, (2, LENGTH))
print(f"routing-transformer {version('routing-transformer')}, torch {torch.__version__}")
with torch.no_grad():
    outputs, _ = model(tokens)
    again, _ = model(tokens)
    moved = {}
    for position in (20, 40, 63):
        other = tokens.clone()
        other[:, position] = (other[:, position] + 7) % 20
        distance = (model(other)[0] - outputs).abs().amax((0, 2))[:position]
        moved[position] = int((distance > 1e-3).sum())
        print(
            f"another token {position}: {moved[position]} of the {position} outputs before it move, "
            f"by up to {float(distance.max()):.2g} (largest output {float(outputs.abs().max()):.2g})"
        )
print("the same tokens twice:", "equal" if torch.equal(again, outputs) else "not equal")
sys.exit(0 if torch.equal(again, outputs) and moved[63] > LENGTH // 2 else 1)
PYTHON
