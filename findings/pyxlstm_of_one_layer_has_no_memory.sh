#!/usr/bin/env bash
# PyxLSTM 1.0.1: an xLSTM of one layer a block never runs its LSTM, and has no memory at all.
#
# The loop over layers is a zip with the dropouts between layers, of which one layer has none. So no
# layer runs: every output depends on the token at its own position alone, for sLSTM and for mLSTM, and
# no parameter of the recurrence has a gradient. With two layers a block, both kinds raise RuntimeError.
#
# Needs a Python with pip (PYTHON=python3 is the default). torch is taken from it, or installed.
# Exit code 0: it behaves as described; 1: it does not any more; 2: it could not be installed.
set -euo pipefail
python=${PYTHON:-python3}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
pip=("$python" -m pip install --quiet --disable-pip-version-check --target "$folder")
"${pip[@]}" --no-deps PyxLSTM==1.0.1 || exit 2
"$python" -c 'import torch' 2>/dev/null || "${pip[@]}" torch==2.13.0 || exit 2
cd "$folder"
PYTHONPATH="$folder" OMP_NUM_THREADS=1 "$python" - <<'PYTHON'
import sys
from importlib.metadata import version

import torch
from xLSTM.model import xLSTM

torch.set_num_threads(1)
print(f"PyxLSTM {version('PyxLSTM')}, torch {torch.__version__}")
as_described = True
for kind in ("slstm", "mlstm"):
    torch.manual_seed(0)
    sizes = {"vocab_size": 20, "embedding_size": 16, "hidden_size": 16, "num_blocks": 2}
    model = xLSTM(**sizes, num_layers=1, lstm_type=kind)
    tokens = torch.randint(20, (2, 12))
    others = tokens.clone()
    others[:, :-1] = (others[:, :-1] + 1) % 20
    outputs, _ = model(tokens)
    moved = (model(others)[0][:, -1] - outputs[:, -1]).abs().max().item()
    outputs.sum().backward()
    recurrent = [p for name, p in model.named_parameters() if ".lstm." in name]
    idle = sum(p.grad is None for p in recurrent)
    print(f"{kind}, 1 layer, all tokens but the last changed: the last output moves by {moved}")
    print(f"{kind}, 1 layer: {idle} of {len(recurrent)} parameters of the recurrence have no gradient")
    as_described &= moved == 0.0 and idle == len(recurrent)
    try:
        xLSTM(**sizes, num_layers=2, lstm_type=kind)(tokens)
        as_described = False
    except RuntimeError as error:
        print(f"{kind}, 2 layers: RuntimeError: {error}")
sys.exit(0 if as_described else 1)
PYTHON
