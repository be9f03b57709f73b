#!/usr/bin/env bash
# memformer 0.3.1: the position bias for the past is in the encoder, that for both sides in the decoder.
#
# The encoder, which sees all tokens, has one bias for a token itself and for all that follow. The
# causal decoder halves its buckets for tokens before and after, and those after are never seen: the
# other half of its table has no gradient. So "causal" means its opposite in the bias.
#
# Needs a Python with pip (PYTHON=python3 is the default). torch is taken from it, or installed.
# Exit code 0: it behaves as described; 1: it does not any more; 2: it could not be installed.
set -euo pipefail
python=${PYTHON:-python3}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
pip=("$python" -m pip install --quiet --disable-pip-version-check --target "$folder")
"${pip[@]}" --no-deps memformer==0.3.1 einops==0.8.2 || exit 2
"$python" -c 'import torch' 2>/dev/null || "${pip[@]}" torch==2.13.0 || exit 2
cd "$folder"
PYTHONPATH="$folder" OMP_NUM_THREADS=1 "$python" - <<'PYTHON'
import sys
from importlib.metadata import version

import torch
from memformer import Memformer

LENGTH = 200  # longer than the distance at which buckets end
torch.manual_seed(0)
torch.set_num_threads(1)
model = Memformer(
    dim=32,
    enc_num_tokens=20,
    enc_depth=1,
    enc_heads=4,
    enc_max_seq_len=LENGTH,
    dec_num_tokens=20,
    dec_depth=1,
    dec_heads=4,
    dec_max_seq_len=LENGTH,
    num_memory_slots=4,
)
encoder = model.encoder.layer_blocks.rel_pos_emb
decoder = model.decoder.net.layer_blocks.rel_pos_emb
tokens = torch.randint(0, 20, (2, LENGTH))
model(tokens, tokens).dec_out.backward()
trained = decoder.relative_attention_bias.weight.grad.abs().sum(1) > 0
with torch.no_grad():
    middle = encoder(9, 9)[0, 0, 4]
after, before = middle[4:].unique().numel(), middle[:5].unique().numel()
print(f"memformer {version('memformer')}, torch {torch.__version__}")
print("the encoder's bias of token 4 to tokens 0 to 8:", *(f"{b:.2f}" for b in middle.tolist()))
print(f"{before} values for itself and 4 before, {after} for itself and 4 after")
print(f"buckets of the decoder with a gradient: {int(trained.sum())} of {len(trained)}")
half = len(trained) // 2
sys.exit(0 if (before, after) == (5, 1) and int(trained.sum()) == half else 1)
PYTHON
