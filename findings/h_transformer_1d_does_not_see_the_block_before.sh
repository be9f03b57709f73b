#!/usr/bin/env bash
# h-transformer-1d 0.1.9: a causal model does not see the block before, however deep it is.
#
# Hierarchical attention is meant to see its own block exactly and those before it ever more coarsely.
# With causal=True the first token of a block, such as token 8 or 40 of 64 with blocks of 8, depends on
# itself alone, also with four layers; token 15 depends on 8 to 15 and never on 0 to 7. A sequence of
# one block has no attention at all: every output depends on its own token only.
#
# Needs a Python with pip (PYTHON=python3 is the default). torch is taken from it, or installed.
# Exit code 0: it behaves as described; 1: it does not any more; 2: it could not be installed.
set -euo pipefail
python=${PYTHON:-python3}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
pip=("$python" -m pip install --quiet --disable-pip-version-check --target "$folder")
"${pip[@]}" --no-deps h-transformer-1d==0.1.9 rotary-embedding-torch==0.8.9 einops==0.8.2 || exit 2
"$python" -c 'import torch' 2>/dev/null || "${pip[@]}" torch==2.13.0 || exit 2
cd "$folder"
PYTHONPATH="$folder" OMP_NUM_THREADS=1 "$python" - <<'PYTHON'
import sys
from importlib.metadata import version

import torch
from h_transformer_1d import HTransformer1D

LENGTH, BLOCK = 64, 8
torch.manual_seed(0)
torch.set_num_threads(1)


def reach(depth, length):
    """[output, input]: whether another token there changes the output."""
    model = HTransformer1D(
        num_tokens=20, dim=32, depth=depth, max_seq_len=LENGTH, causal=True, heads=2, dim_head=16,
        block_size=BLOCK,
    ).eval()
    tokens = torch.randint(0, 20, (2, length))
    changes = torch.zeros(length, length, dtype=torch.bool)
    with torch.no_grad():
        outputs = model(tokens)
        for position in range(length):
            other = tokens.clone()
            other[:, position] = (other[:, position] + 7) % 20
            changes[:, position] = (model(other) - outputs).abs().amax((0, 2)) > 0
    return changes


print(f"h-transformer-1d {version('h-transformer-1d')}, torch {torch.__version__}")
four, one_block = reach(4, LENGTH), reach(4, BLOCK)
for position in (7, 8, 15, 16, 31, 40, 63):
    seen = "".join(".x"[int(sees)] for sees in four[position, : position + 1])
    print(f"four layers, output {position:2d} sees {seen}")
share = float(four.sum()) / (LENGTH * (LENGTH + 1) / 2)
print(f"{share:.0%} of the pairs of a causal model; one block alone:")
print("\n".join("".join(".x"[int(sees)] for sees in row) for row in one_block))
alone = all(four[position].nonzero().flatten().tolist() == [position] for position in (8, 40))
block = four[15].nonzero().flatten().tolist() == list(range(8, 16))
sys.exit(0 if alone and block and torch.equal(one_block, torch.eye(BLOCK).bool()) else 1)
PYTHON
