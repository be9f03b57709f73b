#!/usr/bin/env bash
# local-attention 1.11.2: LocalTransformer.generate() writes another text with its cache of keys and
# values, which it uses by default, than without it, from the third token of the text on.
#
# A step with the cache keeps the keys after rotary positions were applied to them, and the next step
# applies positions to all keys again. So older keys are rotated more often. The first
# call, without a cache yet, keeps keys as they were, so two tokens are right.
#
# Needs a Python with pip (PYTHON=python3 is the default). torch is taken from it, or installed.
# Exit code 0: it behaves as described; 1: it does not any more; 2: it could not be installed.
set -euo pipefail
python=${PYTHON:-python3}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
pip=("$python" -m pip install --quiet --disable-pip-version-check --target "$folder")
"${pip[@]}" --no-deps local-attention==1.11.2 hyper-connections==0.4.11 torch-einops-utils==0.2.0 \
    einops==0.8.2 || exit 2
"$python" -c 'import torch' 2>/dev/null || "${pip[@]}" torch==2.13.0 || exit 2
cd "$folder"
PYTHONPATH="$folder" OMP_NUM_THREADS=1 "$python" - <<'PYTHON'
import sys
from importlib.metadata import version

import torch
from local_attention import LocalTransformer

WINDOW, LENGTH = 16, 96
torch.manual_seed(0)
torch.set_num_threads(1)
model = LocalTransformer(
    num_tokens=32, dim=64, depth=2, heads=4, dim_head=16, causal=True,
    local_attn_window_size=WINDOW, max_seq_len=LENGTH,
).eval()
prompt = torch.randint(32, (1, 4))
with torch.no_grad():
    texts = [model.generate(prompt, 80, temperature=0.0, use_kv_cache=use) for use in (True, False)]
    tokens, cache, far = texts[1], None, []
    prompt_of_tokens = torch.cat([prompt, tokens], 1)[:, :64]
    for end in range(1, 65):
        logits, cache = model(prompt_of_tokens[:, :end], cache=cache, return_cache=True)
        whole = model(prompt_of_tokens[:, :end])[:, -1]
        far.append(float((logits[:, -1] - whole).abs().max() / whole.abs().max()))
same = int((texts[0] == texts[1]).long().cumprod(1).sum())
print(f"local-attention {version('local-attention')}, torch {torch.__version__}")
print(f"greedy text of 80 tokens: the first {same} are the same with the cache and without")
print(f"logits with the cache against those without, off by this much of the largest (window {WINDOW}):")
print("tokens 1 to 5: " + ", ".join(f"{value:.0e}" for value in far[:5]) + f"; at most {max(far):.2f}")
sys.exit(0 if same < 80 and max(far[:2]) < 1e-5 and min(far[2:]) > 1e-3 else 1)
PYTHON
