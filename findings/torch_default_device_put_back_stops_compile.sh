#!/usr/bin/env bash
# torch 2.13.0: putting the default device back is not the same as leaving it alone. After
# `torch.set_default_device(torch.get_default_device())`, where nothing had set one, the default is
# still the CPU, but a function with `Tensor.unflatten` no longer compiles with fullgraph=True:
# torch._dynamo.exc.Unsupported. The call leaves a mode on, through which every operator passes and
# which the compiler does not trace here. `set_default_device(None)` takes it away. Whoever saves and
# restores the settings of a process, as around code of others, meets it.
#
# Needs a Python with pip (PYTHON=python3 is the default); torch is installed.
# Exit code 0: it behaves as described; 1: it does not any more; 2: it could not be installed.
set -euo pipefail
python=${PYTHON:-python3}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
pip=("$python" -m pip install --quiet --disable-pip-version-check --target "$folder")
# What torch needs depends on its build, so that it alone brings its dependencies.
"${pip[@]}" --no-deps numpy==2.4.6 || exit 2
"${pip[@]}" torch==2.13.0 || exit 2
cd "$folder"
PYTHONPATH="$folder" "$python" -B - <<'PYTHON'
import sys

import torch


def parts(x: torch.Tensor) -> torch.Tensor:
    return 2 * x.unflatten(0, (2, 3))


def compiles() -> str:
    """What becomes of a compilation in one graph; no kernels are made."""
    torch._dynamo.reset()
    try:
        torch.compile(parts, fullgraph=True, backend="eager")(torch.ones(6))
    except Exception as error:
        return type(error).__name__
    return "compiled"


seen = {"at first": (compiles(), torch.get_default_device())}
torch.set_default_device(torch.get_default_device())
seen["put back"] = (compiles(), torch.get_default_device())
torch.set_default_device(None)
seen["set to None"] = (compiles(), torch.get_default_device())
print("torch", torch.__version__)
for when, (outcome, device) in seen.items():
    print(f"{when}: default device {device}, {outcome}")
outcomes = [outcome for outcome, _ in seen.values()]
devices = {str(device) for _, device in seen.values()}
as_described = outcomes == ["compiled", "Unsupported", "compiled"] and devices == {"cpu"}
sys.exit(0 if as_described else 1)
PYTHON
