#!/usr/bin/env bash
# trim-transformer 0.1.3: with is_causal=True, a position's output depends on how many tokens follow it.
#
# If no scale is given, attention is divided by the number of tokens in the call. So outputs of a prefix
# are not those of the whole sequence, and single tokens with the cache of keys and values, as its README
# generates, are divided by one. With a scale given, both agree with the whole sequence.
#
# Needs a Python with pip (PYTHON=python3 is the default). torch is taken from it, or installed.
# Exit code 0: it behaves as described; 1: it does not any more; 2: it could not be installed.
set -euo pipefail
python=${PYTHON:-python3}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
pip=("$python" -m pip install --quiet --disable-pip-version-check --target "$folder")
"${pip[@]}" --no-deps trim-transformer==0.1.3 || exit 2
"$python" -c 'import torch' 2>/dev/null || "${pip[@]}" torch==2.13.0 || exit 2
cd "$folder"
PYTHONPATH="$folder" OMP_NUM_THREADS=1 "$python" - <<'PYTHON'
import sys
from importlib.metadata import version

import torch
from trim_transformer import transformer_layers as layers

LENGTH, WIDTH = 24, 32
torch.set_num_threads(1)
print(f"trim-transformer {version('trim-transformer')}, torch {torch.__version__}")
far = {}
for scale in (None, 1 / LENGTH):
    torch.manual_seed(0)
    layer = layers.TrimTransformerEncoderLayer(WIDTH, 4, 64, batch_first=True, scale=scale)
    model = layers.TrimTransformerEncoder(layer, 2).eval()
    inputs = torch.randn(2, LENGTH, WIDTH)
    with torch.no_grad():
        whole = model(inputs, is_causal=True)
        half = model(inputs[:, : LENGTH // 2], is_causal=True)
        cached = {"is_causal": True, "use_kv_cache": True, "update_kv_cache": True}
        steps = torch.cat([model(token, **cached) for token in inputs.split(1, dim=1)], 1)
    largest = whole.abs().max()
    for name, outputs in (("the first half alone", half), ("single tokens with the cache", steps)):
        far[scale, name] = float((outputs - whole[:, : outputs.shape[1]]).abs().max() / largest)
        given = "default scale" if scale is None else "scale=1/24"
        print(f"{given}, {name}: off by {far[scale, name]:.1g} of the largest output")
default = [value for (scale, _), value in far.items() if scale is None]
fixed = [value for (scale, _), value in far.items() if scale]
sys.exit(0 if min(default) > 0.1 and max(fixed) < 1e-5 else 1)
PYTHON
