#!/usr/bin/env bash
# minmaxrnc 0.3.0: three options of the backbone's configuration have no effect in a language model.
#
# The output_gate, conv_type and ffn_dropout of MinMaxRNCLMConfig are documented to override those of its
# backbone "when set". Their defaults always override them: a backbone with output_gate=False,
# conv_type="gated" and ffn_dropout=0 gives gates, the basic convolution and a dropout of 0.1.
#
# Needs a Python with pip (PYTHON=python3 is the default). torch is taken from it, or installed.
# Exit code 0: it behaves as described; 1: it does not any more; 2: it could not be installed.
set -euo pipefail
python=${PYTHON:-python3}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
pip=("$python" -m pip install --quiet --disable-pip-version-check --target "$folder")
"${pip[@]}" --no-deps minmaxrnc==0.3.0 || exit 2
"$python" -c 'import torch' 2>/dev/null || "${pip[@]}" torch==2.13.0 || exit 2
cd "$folder"
PYTHONPATH="$folder" OMP_NUM_THREADS=1 "$python" - <<'PYTHON'
import dataclasses
import sys
from importlib.metadata import version

import torch
from minmaxrnc import MinMaxRNC, MinMaxRNC_LM, MinMaxRNCConfig, MinMaxRNCLMConfig

torch.set_num_threads(1)
plain = MinMaxRNCConfig(d_model=16, n_layers=2, d_state=8)


def seen(model):
    """What the model is made of: the names of its weights, and its probabilities of dropout."""
    names = sorted(name for name, _ in model.layers.named_parameters())
    return names, [module.p for module in model.layers.modules() if isinstance(module, torch.nn.Dropout)]


def language_model(backbone, **given):
    return seen(MinMaxRNC_LM(20, MinMaxRNCLMConfig(backbone=backbone, **given)))


print(f"minmaxrnc {version('minmaxrnc')}, torch {torch.__version__}")
acts = {}
for name, value in (("output_gate", False), ("conv_type", "gated"), ("ffn_dropout", 0.0), ("norm", "none")):
    backbone = dataclasses.replace(plain, **{name: value})
    alone = seen(MinMaxRNC(backbone)) != seen(MinMaxRNC(plain))
    acts[name] = language_model(backbone) != language_model(plain)
    print(f"backbone with {name}={value!r}: another backbone {alone}, another language model {acts[name]}")
    if name != "norm":
        again = language_model(plain, **{name: value}) != language_model(plain)
        print(f"  {name}={value!r} in the configuration of the language model: another one {again}")
        acts[name] = acts[name] or not (alone and again)
sys.exit(0 if acts.pop("norm") and not any(acts.values()) else 1)
PYTHON
