#!/usr/bin/env bash
# turbobpe 0.1.2: a tokeniser with a pattern of its own comes back from its file as another one.
#
# RegexTokenizer.load() reads the pattern from the file, and goes on splitting by the one it was built
# with, GPT-4's by default: .pattern says one thing and encode() does another. The same text has other
# tokens, which decode to it all the same, so that no error is seen. If the pattern is given again to the
# constructor, the tokens are those of the training.
#
# Needs a Python with pip (PYTHON=python3 is the default); what it runs is installed.
# Exit code 0: it behaves as described; 1: it does not any more; 2: it could not be installed.
set -euo pipefail
python=${PYTHON:-python3}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
pip=("$python" -m pip install --quiet --disable-pip-version-check --target "$folder")
"${pip[@]}" --no-deps turbobpe==0.1.2 regex==2026.11.19 || exit 2
cd "$folder"
PYTHONPATH="$folder" OMP_NUM_THREADS=1 "$python" - <<'PYTHON'
import contextlib
import io
import random
import sys
from importlib.metadata import version

with contextlib.redirect_stdout(io.StringIO()):  # it prints which backend it has
    from turbobpe import RegexTokenizer

PATTERN = r"\S+|\s"  # whole words, with the digits and signs in them
WORDS = "memory recall state space delta rule 2026 12345 it's don't kernel token".split()
text = " ".join(random.Random(0).choices(WORDS, k=4000))
trained = RegexTokenizer(pattern=PATTERN)
trained.train(text, 330)
trained.save("words")
loaded, built_alike = RegexTokenizer(), RegexTokenizer(pattern=PATTERN)
for tokeniser in (loaded, built_alike):
    tokeniser.load("words.model")
ids = {
    "as trained": trained.encode(text),
    "RegexTokenizer().load()": loaded.encode(text),
    "RegexTokenizer(pattern).load()": built_alike.encode(text),
}
print(f"turbobpe {version('turbobpe')}")
for name, found in ids.items():
    same = found == ids["as trained"]
    print(f"{name}: {len(found)} tokens, {'the same' if same else 'others'}")
kept = loaded.pattern == trained.pattern and loaded.merges == trained.merges
print(f"pattern and merges of the loaded one are those of the training: {kept}")
alike, other = ids["RegexTokenizer(pattern).load()"], ids["RegexTokenizer().load()"]
as_described = alike == ids["as trained"] != other and loaded.decode(other) == text
sys.exit(0 if as_described and kept else 1)
PYTHON
