#!/usr/bin/env bash
# minimamba 1.0.1: generate() and generate_streaming() with the cache that they use by default end in
# an AttributeError at the second new token, for every model and prompt.
#
# The step of one token calls Tensor.roll_, which PyTorch does not have (torch.roll gives a new
# tensor). With use_cache=False the same call works.
#
# Needs a Python with pip (PYTHON=python3 is the default). torch is taken from it, or installed.
# Exit code 0: it behaves as described; 1: it does not any more; 2: it could not be installed.
set -euo pipefail
python=${PYTHON:-python3}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
pip=("$python" -m pip install --quiet --disable-pip-version-check --target "$folder")
"${pip[@]}" --no-deps minimamba==1.0.1 || exit 2
"$python" -c 'import torch' 2>/dev/null || "${pip[@]}" torch==2.13.0 || exit 2
cd "$folder"
PYTHONPATH="$folder" OMP_NUM_THREADS=1 "$python" - <<'PYTHON'
import sys
from importlib.metadata import version

import torch
from minimamba import MambaForCausalLM, MambaLMConfig

torch.manual_seed(0)
torch.set_num_threads(1)
model = MambaForCausalLM(MambaLMConfig(d_model=64, n_layer=2, vocab_size=32)).eval()
prompt = torch.randint(32, (1, 10))
print(f"minimamba {version('minimamba')}, torch {torch.__version__}")


def outcome(**options):
    try:
        return tuple(model.generate(prompt, max_new_tokens=5, **options).shape)
    except AttributeError as error:
        return str(error)


def streamed():
    tokens = []
    try:
        for token in model.generate_streaming(prompt, max_new_tokens=5):
            tokens.append(token)
    except AttributeError as error:
        return len(tokens), str(error)
    return len(tokens), "no error"


cached, uncached, stream = outcome(), outcome(use_cache=False), streamed()
print(f"generate(), as it is by default: {cached}")
print(f"generate(use_cache=False): {uncached}")
print(f"generate_streaming(): {stream[0]} tokens, then {stream[1]}")
expected = "roll_" in str(cached) and uncached == (1, 15) and stream[0] == 1 and "roll_" in stream[1]
sys.exit(0 if expected else 1)
PYTHON
