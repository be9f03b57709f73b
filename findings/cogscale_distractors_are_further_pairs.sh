#!/usr/bin/env bash
# cogscale 0.2.0: the distractors of associative_recall are further pairs, so that content does not decide.
#
# After the key-value pairs come random tokens of the same alphabet, without a mark. The key that is asked
# for stands among them in 96 % of the small test sequences and in 68 % of the medium ones, with another
# token after it. What followed the key where it stood last, the answer of an induction head, is right in
# 23 and 29 %, and what followed it where it stood first in 75 and 82 %. Only its place tells: the pairs
# are the first 6 or 14 tokens.
#
# Needs a Python with pip (PYTHON=python3 is the default). numpy is taken from it, or installed.
# Exit code 0: it behaves as described; 1: it does not any more; 2: it could not be installed.
set -euo pipefail
python=${PYTHON:-python3}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
pip=("$python" -m pip install --quiet --disable-pip-version-check --target "$folder")
"${pip[@]}" --no-deps cogscale==0.2.0 || exit 2
"$python" -c 'import numpy' 2>/dev/null || "${pip[@]}" numpy || exit 2
cd "$folder"
PYTHONPATH="$folder" "$python" - <<'PYTHON'
import sys
from importlib.metadata import version

import numpy as np

import cogscale
from cogscale import evals

print(f"cogscale {version('cogscale')}, numpy {np.__version__}")
as_described = True
for difficulty, expected in (("small", (0.96, 0.23)), ("medium", (0.677, 0.291))):
    sizes = getattr(evals, f"cogscale_{difficulty}")["associative_recall"]["params"]
    paired = 2 * sizes["num_pairs"]
    data = cogscale.build_task("associative_recall", difficulty=difficulty, seed=0)
    tokens, answers = data["X_test"].argmax(-1), data["Y_test"][:, -1].argmax(-1)
    again, last, first, by_place = [], [], [], []
    for row, answer in zip(tokens, answers):
        key = row[-1]
        places = np.flatnonzero(row[:-1] == key)
        again.append((row[paired:-2] == key).any())
        last.append(row[places[-1] + 1] == answer)
        first.append(row[places[0] + 1] == answer)
        place = next(place for place in range(0, paired, 2) if row[place] == key)
        by_place.append(row[place + 1] == answer)
    shares = [float(np.mean(values)) for values in (again, last, first, by_place)]
    print(f"{difficulty}, {len(tokens)} test sequences: the key is again in distractors of {shares[0]:.3f}")
    print(f"  right: what followed it last {shares[1]:.3f}, what followed it first {shares[2]:.3f},")
    print(f"  what followed it at a place of keys {shares[3]:.3f}")
    as_described &= np.allclose(shares[:2], expected) and shares[3] == 1
sys.exit(0 if as_described else 1)
PYTHON
