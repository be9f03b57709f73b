#!/usr/bin/env bash
# usn 0.3.2: generation reads the last token of a prompt twice.
#
# USNGenerator runs its model over the whole prompt, and then gives it the last token once more, with the
# state that has it already. So what it generates goes on from another text, "abcc" for "abc", and its
# probabilities are those of that text. A list of prompts, which generate() is documented to take, ends in
# a RuntimeError if it has more than one.
#
# Needs a Python with pip (PYTHON=python3 is the default). torch is taken from it, or installed.
# Exit code 0: it behaves as described; 1: it does not any more; 2: it could not be installed.
set -euo pipefail
python=${PYTHON:-python3}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
pip=("$python" -m pip install --quiet --disable-pip-version-check --target "$folder")
"${pip[@]}" --no-deps usn==0.3.2 numpy==2.4.6 || exit 2
"$python" -c 'import torch' 2>/dev/null || "${pip[@]}" torch==2.13.0 || exit 2
cd "$folder"
PYTHONPATH="$folder" OMP_NUM_THREADS=1 "$python" - <<'PYTHON'
import sys
from importlib.metadata import version

import torch
from usn import USNConfig, USNGenerationConfig, USNGenerator, USNModel
from usn.tokenizers import CharTokenizer

torch.manual_seed(0)
torch.set_num_threads(1)
tokeniser = CharTokenizer("abcdefgh")
sizes = {"num_layers": 2, "d_model": 16, "d_s": 8, "k": 4, "d_ff": 32}
model = USNModel(USNConfig(**sizes, vocab_size=tokeniser.vocab_size, max_seq_len=32)).eval()
with torch.no_grad():
    for weights in model.parameters():
        weights.add_(0.3 * torch.randn_like(weights))  # as a training would move them
generator = USNGenerator(model, tokeniser, USNGenerationConfig(temperature=0, top_k=0, top_p=1.0))


def generated(prompts):
    """The first token of each prompt's continuation, and its log-probability."""
    output = generator.generate(prompts, max_new_tokens=1)
    return list(zip(output.token_ids[:, 0].tolist(), output.log_probs[:, 0].tolist()))


@torch.no_grad()
def after(text, token):
    """The log-probability of a token after a text, by one call on all of it."""
    logits, _ = model(torch.tensor([tokeniser.encode(text)]))
    return logits[0, -1].log_softmax(-1)[token].item()


print(f"usn {version('usn')}, torch {torch.__version__}; log-probability of the first new token")
whole, twice = [], []
for prompt in ("abc", "hgfab", "ddeea"):
    ((token, told),) = generated([prompt])
    again = prompt + prompt[-1]
    whole.append(abs(told - after(prompt, token)))
    twice.append(abs(told - after(again, token)))
    print(f"  {prompt}: told {told:.4f}; after {prompt} {after(prompt, token):.4f}", end="")
    print(f", after {again} {after(again, token):.4f}")
try:
    generated(["abc", "hgfab"])
    error = None
except RuntimeError as raised:
    error = str(raised)
print(f"  two prompts at once: {error}")
sys.exit(0 if min(whole) > 0.01 and max(twice) < 1e-4 and error else 1)
PYTHON
