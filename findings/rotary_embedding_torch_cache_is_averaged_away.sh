#!/usr/bin/env bash
# rotary-embedding-torch 0.9.1 inside ema-pytorch 0.8.3: the averaged model loses its positions.
#
# RotaryEmbedding keeps its angles in a buffer, zeros where no call has come yet, and in a plain attribute the
# length up to which the buffer is filled. EMA takes every buffer of real numbers from the trained model, and no
# attribute. So once the averaged model was asked for more positions than the trained model sees, as in an
# evaluation at a greater length, the next update puts zeros there, and the attribute still says that they are
# filled: queries and keys beyond the training length are no longer rotated. Nothing is raised or warned of.
# Without an evaluation at that length before, the averaged model rotates all positions.
#
# Needs a Python with pip (PYTHON=python3 is the default). torch is taken from it, or installed.
# Exit code 0: it behaves as described; 1: it does not any more; 2: it could not be installed.
set -euo pipefail
python=${PYTHON:-python3}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
pip=("$python" -m pip install --quiet --disable-pip-version-check --target "$folder")
"${pip[@]}" --no-deps rotary-embedding-torch==0.9.1 ema-pytorch==0.8.3 einops==0.8.2 numpy==2.4.6 || exit 2
"$python" -c 'import torch' 2>/dev/null || "${pip[@]}" torch==2.13.0 || exit 2
cd "$folder"
PYTHONPATH="$folder" OMP_NUM_THREADS=1 "$python" - <<'PYTHON'
import sys
from importlib.metadata import version

import torch
from ema_pytorch import EMA
from rotary_embedding_torch import RotaryEmbedding
from torch import nn

TRAINED, EVALUATED = 32, 64


class Heads(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(16, 16)
        self.rotary = RotaryEmbedding(16)

    def forward(self, inputs):
        return self.rotary.rotate_queries_or_keys(self.linear(inputs))


def averaged(evaluate_before):
    """How far the averaged model's vectors beyond the training length are from unrotated and from rotated ones."""
    torch.manual_seed(0)
    model = Heads()
    ema = EMA(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    inputs = torch.randn(4, EVALUATED, 16)
    for step in range(3):
        if evaluate_before:
            with torch.no_grad():
                ema.ema_model.eval()(inputs)
        model(inputs[:, :TRAINED]).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        ema.update()
    with torch.no_grad():
        asked = ema.ema_model.eval()
        outputs, vectors = asked(inputs), asked.linear(inputs)
        rotated = RotaryEmbedding(16).rotate_queries_or_keys(vectors)
    size = float(vectors.abs().max())

    def far(others, positions):
        return float((outputs - others)[:, positions].abs().max()) / size

    beyond = slice(TRAINED, None)
    return far(rotated, slice(TRAINED)), far(vectors, beyond), far(rotated, beyond)


print(f"rotary-embedding-torch {version('rotary-embedding-torch')}, ema-pytorch {version('ema-pytorch')}, "
      f"torch {torch.__version__}")
lost, kept = averaged(True), averaged(False)
print(f"asked for {EVALUATED} positions before: up to {TRAINED} off from rotated by {lost[0]:.1g}, "
      f"beyond from unrotated by {lost[1]:.1g}, from rotated by {lost[2]:.2f} of the largest number")
print(f"not asked before: beyond {TRAINED} off from rotated by {kept[2]:.1g}")
as_described = max(lost[:2]) < 1e-6 and lost[2] > 0.5 and max(kept[0], kept[2]) < 1e-6
sys.exit(0 if as_described else 1)
PYTHON
