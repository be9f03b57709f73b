#!/usr/bin/env bash
# opengdn 0.1.0: where a head forgets fast, all gradients of the chunkwise form are NaN.
#
# gated_delta_chunkwise divides the product of decays up to one position by that up to another, also for
# pairs that no output uses; those ratios overflow to infinity and are cut off, but zero times infinity
# is their gradient. At decays of 0.2 and its default chunk of 64 the outputs are numbers, within 1 % of
# those of the package's gated_delta, and every gradient of the decays is NaN; those of gated_delta are
# numbers. Its mixer, with backend="chunkwise", ends a training so.
#
# Needs a Python with pip (PYTHON=python3 is the default). torch is taken from it, or installed.
# Exit code 0: it behaves as described; 1: it does not any more; 2: it could not be installed.
set -euo pipefail
python=${PYTHON:-python3}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
pip=("$python" -m pip install --quiet --disable-pip-version-check --target "$folder")
"${pip[@]}" --no-deps opengdn==0.1.0 || exit 2
"$python" -c 'import torch' 2>/dev/null || "${pip[@]}" torch==2.13.0 || exit 2
cd "$folder"
PYTHONPATH="$folder" OMP_NUM_THREADS=1 "$python" - <<'PYTHON'
import sys
from importlib.metadata import version

import torch
from opengdn import gated_delta, gated_delta_chunkwise

torch.set_num_threads(1)
print(f"opengdn {version('opengdn')}, torch {torch.__version__}")
finite, outputs_of = {}, {}
for decay in (0.5, 0.2):
    for form in (gated_delta, gated_delta_chunkwise):
        torch.manual_seed(0)
        queries, keys = (torch.nn.functional.normalize(torch.randn(1, 64, 2, 8), dim=-1) for _ in range(2))
        values = torch.randn(1, 64, 2, 8)
        alpha = torch.full((1, 64, 2), decay, requires_grad=True)
        beta = torch.full((1, 64, 2), 0.5)
        outputs, _ = form(queries, keys, values, alpha, beta)
        outputs.square().sum().backward()
        share = torch.isfinite(alpha.grad).double().mean().item()
        finite[decay, form.__name__] = share
        outputs_of[decay, form.__name__] = outputs.detach()
        far = (outputs.detach() - outputs_of[decay, "gated_delta"]).abs().max()
        far = (far / outputs_of[decay, "gated_delta"].abs().max()).item()
        print(
            f"decay {decay}, {form.__name__}: {share:.0%} of the gradients are numbers, "
            f"outputs are off by {far:.1g} of the largest"
        )
as_described = finite.pop((0.2, "gated_delta_chunkwise")) == 0.0
sys.exit(0 if as_described and all(share == 1.0 for share in finite.values()) else 1)
PYTHON
