#!/usr/bin/env bash
# cogscale 0.2.0: the published table takes each learning rate by the test error.
#
# The source distribution has every run (baseline/results/results.csv: five rates, ten seeds, validation
# and test scores) and the table of means that was made of them (mean_std.md). All 504 cells of trained
# models are those of the rate whose mean test error is lowest. The rate whose mean validation error is
# lowest would give another number in 28 cells, never a better one.
#
# Needs a Python with pip (PYTHON=python3 is the default), and a network for pip download.
# Exit code 0: it behaves as described; 1: it does not any more; 2: it could not be had.
set -euo pipefail
python=${PYTHON:-python3}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$python" -m pip download --quiet --disable-pip-version-check --dest "$folder" --no-binary cogscale \
    --no-deps cogscale==0.2.0 || exit 2
cd "$folder"
tar xzf cogscale-0.2.0.tar.gz
cd cogscale-0.2.0/baseline/results
"$python" - <<'PYTHON'
import csv
import statistics
import sys
from collections import defaultdict

scores = defaultdict(list)
with open("results.csv", encoding="utf-8") as file:
    for row in csv.DictReader(file):
        if row["Model"] != "ESN":  # which has no learning rate
            cell = row["Task"], row["Difficulty"], int(row["Target_Params"]), row["Model"]
            # Four runs diverged, and have no test score.
            pair = float(row["Best_Val_Score"]), float(row["Test_Score"] or "inf")
            scores[cell, float(row["LR"])].append(pair)
rates = defaultdict(list)
for (cell, _), pairs in sorted(scores.items()):
    validation, test = (statistics.fmean(numbers) for numbers in zip(*pairs))
    rates[cell].append((validation, test))

printed = {}
with open("mean_std.md", encoding="utf-8") as file:
    heads, _, *lines = [[text.strip(" *") for text in line.split("|")[1:-1]] for line in file]
for name, *values in lines:
    task, size, budget = name.split(" - ")
    where = task, {"SM": "small", "MD": "medium"}[size], int(budget.replace("k", "000"))
    for model, value in zip(heads[1:], values):
        if model != "ESN":
            printed[(*where, model)] = value.split(" ")[0]

by_test = {cell: min(test for _, test in pairs) for cell, pairs in rates.items()}
by_validation = {cell: min(pairs)[1] for cell, pairs in rates.items()}
as_test = sum(printed[cell] == f"{by_test[cell]:.2f}" for cell in printed)
others = [cell for cell in printed if f"{by_validation[cell]:.2f}" != printed[cell]]
better = sum(by_validation[cell] < by_test[cell] for cell in printed)
print("cogscale 0.2.0, baseline/results")
print(f"cells of trained models: {len(printed)}, means of {len(scores[cell, 0.001])} seeds")
print(f"equal to the rate with the lowest mean test error: {as_test}")
print(f"another number at the rate with the lowest mean validation error: {len(others)}, better {better}")
for cell in others[:3]:
    print(f"  {', '.join(map(str, cell))}: printed {printed[cell]}, by validation {by_validation[cell]:.2f}")
sys.exit(0 if as_test == len(printed) == 504 and len(others) == 28 and not better else 1)
PYTHON
