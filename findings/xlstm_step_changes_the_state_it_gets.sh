#!/usr/bin/env bash
# xlstm 2.0.6: step() writes into the state that it is given.
#
# xLSTMLMModel.step(token, state) returns a state, and changes the one it got as well: the dictionary has
# new entries, and the window of the convolution is shifted in place. Two continuations of one prompt,
# as in beam search or sampling several answers, are right for the first alone; a shallow copy of the
# dictionary does not help, a deep copy does.
#
# Needs a Python with pip (PYTHON=python3 is the default). torch is taken from it, or installed.
# Exit code 0: it behaves as described; 1: it does not any more; 2: it could not be installed.
set -euo pipefail
python=${PYTHON:-python3}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
pip=("$python" -m pip install --quiet --disable-pip-version-check --target "$folder")
"${pip[@]}" --no-deps xlstm==2.0.6 mlstm-kernels==2.0.6 einops==0.8.2 omegaconf==2.3.1 antlr4-python3-runtime==4.9.3 PyYAML || exit 2
"$python" -c 'import torch' 2>/dev/null || "${pip[@]}" torch==2.13.0 || exit 2
cd "$folder"
PYTHONPATH="$folder" OMP_NUM_THREADS=1 "$python" - <<'PYTHON'
import copy
import sys
from importlib.metadata import version

import torch
from xlstm import mLSTMBlockConfig, mLSTMLayerConfig, xLSTMLMModel, xLSTMLMModelConfig

torch.manual_seed(0)
torch.set_num_threads(1)
layer = mLSTMLayerConfig(conv1d_kernel_size=4, qkv_proj_blocksize=4, num_heads=2)
model = xLSTMLMModel(
    xLSTMLMModelConfig(
        mlstm_block=mLSTMBlockConfig(mlstm=layer),
        context_length=32,
        num_blocks=2,
        embedding_dim=32,
        vocab_size=20,
    )
).eval()
prompt = torch.randint(20, (1, 8))
first, second = torch.tensor([[3]]), torch.tensor([[7]])


def shallow(state):
    return {block: dict(entries) for block, entries in state.items()}


def second_after_first(keep):
    """The logits of the second continuation, where the first went on from what ``keep`` gives."""
    state = None
    for token in prompt.split(1, dim=1):
        _, state = model.step(token, state)
    kept = keep(state)
    model.step(first, state)
    return model.step(second, kept)[0]


with torch.no_grad():
    expected = model(torch.cat([prompt, second], 1))[:, -1:]
    far = {
        keep.__name__: float((second_after_first(keep) - expected).abs().max() / expected.abs().max())
        for keep in (copy.copy, shallow, copy.deepcopy)
    }
print(f"xlstm {version('xlstm')}, torch {torch.__version__}")
print("a second continuation of the same state, against the whole sequence in one call:")
for name, distance in far.items():
    print(f"  first continuation had the original, second a {name}: off by {distance:.2g}")
sys.exit(0 if min(far["copy"], far["shallow"]) > 1e-2 and far["deepcopy"] < 1e-4 else 1)
PYTHON
