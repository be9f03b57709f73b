"""docs/public_packages.md and docs/public_packages.json from what was done."""

import json
from pathlib import Path
from typing import Any

from tests.public_packages.agreement import with_intervals
from tests.public_packages.comparing import ABSENT, LEAK, NO, RAISES, ROUNDING, UNCLEAR, YES
from tests.public_packages.contender import Contender

Rows = list[tuple[Contender, dict[str, Any]]]

# Column -> the checks that it sums up, by the beginnings of their names.
COLUMNS = {
    "causal": ("causal_by_values/", "causal_by_prefixes/"),
    "memory": ("uses_past/",),
    "same twice": ("deterministic/",),
    "batch": ("batch_independent/",),
    "inputs kept": ("inputs_unchanged/",),
    "seed": ("same_seed_same_model",),
    "step, batch 1": ("stepwise/batch 1",),
    "step, batch 2": ("stepwise/batch 2",),
    "prompt": ("after_prompts",),
    "pieces": ("several_pieces",),
    "in turn": ("interleaved",),
    "state reused": ("used_twice",),
    "copied": ("can_be_copied",),
    "trains": ("trains",),
    "float64": ("float64",),
    "saved": ("saved_and_loaded",),
    "long": ("numbers",),
}
ORDER = (YES, ABSENT, UNCLEAR, RAISES, NO)  # the last of several is shown
SHOWN = {ABSENT: "–"}
TASK_LABELS = {
    "multi_query_recall": "recall",
    "state_tracking": "parity",
    "regbench": "RegBench",
}

HEAD = f"""\
# Public packages, examined

Written by `nox -s public_packages`, which installs each package at the version named here, runs
it, and writes this page and [public_packages.json](public_packages.json), where every number is.
It says what was run and what came out, on a CPU, with float32 unless said otherwise, at width 64
with two layers. Layers stand between an embedding and an output matrix of ours; the adapters are
in `tests/public_packages/`. Not all that a column asks is promised by a package: a `no` says that
it does not hold, not that it should. What another machine finds different is said by
`nox -s public_packages -- output=there compared_with=docs/public_packages.json`.

An output counts as unchanged within {ROUNDING:g} of the largest output and as changed from
{LEAK:g} on; between them it is `{UNCLEAR}`. `–`: the package does not offer it, or no way to it was
tried. `{RAISES}`: it ended in an error.

| column | holds if |
|---|---|
"""

# What a column says, in the order of COLUMNS.
MEANINGS = {
    "causal": "other tokens after a position, or none, leave the outputs up to it as they are: 16 "
    "cuts and 7 prefixes (4 and 4 where a package takes long), in eval and train mode, with fresh "
    "weights and after 100 training steps",
    "memory": "another first token changes outputs after it",
    "same twice": "in eval mode the same tokens give the same outputs, also after other tokens",
    "batch": "a sequence has the outputs that it has alone, whatever stands beside it",
    "inputs kept": "no call writes to its inputs",
    "seed": "built twice after one `torch.manual_seed`, it is the same model",
    "step, batch 1": "one token at a time from a carried state equals one call on all 40 tokens",
    "step, batch 2": "likewise for two sequences at once",
    "prompt": "likewise, after a prompt of 1, 5, 16, 17 or 32 tokens in one call, at batch 1 and 2",
    "pieces": "likewise, for pieces of 1 to 16 tokens in six patterns",
    "in turn": "two sequences that go on in turn, each from its state, give what each gives alone",
    "state reused": "a state from which one call went on still serves a second one",
    "copied": "a deep copy of a state goes on as the state does",
    "trains": "all weights are numbers after 100 steps at the learning rate of the trainings below",
    "float64": "after `.double()` outputs are float64, and computed in float64 throughout",
    "saved": "the trained `state_dict`, loaded into a model of another seed, is the same model",
    "long": "outputs are numbers at 512 tokens (256 where a package takes long)",
}

SCORES = """\
## Short trainings

Accuracy after a training of seconds, by AdamW at rates that nobody tuned: recall of two pairs (400
steps; 0.5 is chance between values that were seen), parity (200 steps at 8 letters, asked behind
them, up to 32; 0.5 is chance) and RegBench (100 steps); packages that take long have parity alone.
Each is the mean of seeds 0, 1 and 2, and in which interval the mean of three other trainings, such
as another machine's, is expected with 95 %: by the variance of the three or by the mean variance of
all models with that task, whichever is larger, since a training that ends while its accuracy jumps
may show three equal values. It says whether a package trains at all beside this project's model of
the same kind, in brackets, and ranks nothing; `raises`: it ended in an error. Steps: CPU-seconds of
a training step (of RegBench, or of parity where that stands alone) over those of that model, in
turn, the median of five (lowest to highest).
"""


def facts_of(rows: Rows) -> list[dict[str, Any]]:
    """What public_packages.json holds."""
    facts = [
        {
            "label": contender.label,
            "package": contender.package,
            "version": contender.version,
            "installed": list(contender.requirements),
            "rival": contender.rival,
            "holds": summary(values.get("behaviour", {})),
            **values,
        }
        for contender, values in rows
    ]
    return with_intervals(facts)


def write_page(rows: Rows, folder: Path) -> None:
    """Write both files into ``folder``."""
    folder.mkdir(parents=True, exist_ok=True)
    facts = facts_of(rows)
    text = json.dumps(facts, indent=1, ensure_ascii=False, sort_keys=True)
    (folder / "public_packages.json").write_text(text + "\n", encoding="utf-8")
    meanings = "".join(f"| {column} | {meaning} |\n" for column, meaning in MEANINGS.items())
    parts = [HEAD + meanings, table_of_checks(rows), what_was_seen(rows), table_of_counts(rows)]
    parts.append(table_of_scores(rows, facts))
    (folder / "public_packages.md").write_text("\n".join(parts), encoding="utf-8")


def outcomes_of(behaviour: dict[str, Any], beginnings: tuple[str, ...]) -> dict[str, Any]:
    """Name -> outcome, of the checks of a column."""
    return {name: o for name, o in behaviour.items() if name.startswith(beginnings)}


def summary(behaviour: dict[str, Any]) -> dict[str, str]:
    """Column -> one word, the least good of its checks; columns not reached are left out."""
    words = {}
    for column, beginnings in COLUMNS.items():
        outcomes = outcomes_of(behaviour, beginnings).values()
        if outcomes:
            # A gate that starts at 0 hides the past from fresh weights: once seen is enough.
            choose = min if column == "memory" else max
            words[column] = choose((o["holds"] for o in outcomes), key=ORDER.index)
    return words


def row(cells: list[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def table(heads: list[str], lines: list[list[str]]) -> str:
    return "\n".join([row(heads), row(["---"] * len(heads)), *map(row, lines)]) + "\n"


def name_of(contender: Contender) -> str:
    """The class with the package and its version."""
    rest = contender.label.removeprefix(contender.package).strip(" .")
    return f"{contender.package} {contender.version}: {rest or contender.label}"


def table_of_checks(rows: Rows) -> str:
    """Package and class in rows, what holds in columns."""
    lines = []
    for contender, values in rows:
        words = summary(values.get("behaviour", {}))
        cells = [words.get(column, "not reached") for column in COLUMNS]
        lines.append([name_of(contender), *(SHOWN.get(cell, cell) for cell in cells)])
    return "## What holds\n\n" + table(["package and class", *COLUMNS], lines)


def what_was_seen(rows: Rows) -> str:
    """A line for every cell that is neither yes nor not offered."""
    lines = []
    for contender, values in rows:
        behaviour = values.get("behaviour", {})
        for column, beginnings in COLUMNS.items():
            outcomes = outcomes_of(behaviour, beginnings)
            noted = {n: o for n, o in outcomes.items() if o["holds"] not in (YES, ABSENT)}
            if noted and summary(behaviour)[column] != YES:
                worst = max(noted, key=lambda name: noted[name]["deviation"] or 0.0)
                lines.append([name_of(contender), column, sentence(worst, noted[worst])])
    heads = ["package and class", "column", "the largest that was seen"]
    return "## What was seen where it does not hold\n\n" + table(heads, lines)


def sentence(name: str, outcome: dict[str, Any]) -> str:
    """Where a deviation was seen, and how large it was."""
    _, *when = name.split("/")
    parts = [outcome["where"].replace("|", "\\|")]
    if outcome["deviation"] is not None:
        parts.append(f"off by {outcome['deviation']:.1g} of the largest output")
    if len(when) == 2:
        parts.append(f"{when[0]} weights, {when[1]} mode")
    return "; ".join(part for part in parts if part)


def table_of_counts(rows: Rows) -> str:
    """Parameters, and arguments without effect."""
    lines = []
    for contender, values in rows:
        behaviour = values.get("behaviour", {})
        counts, arguments = behaviour.get("counts"), behaviour.get("arguments")
        if counts is None:
            continue
        unused = counts["without_gradient"]
        cells = [f"{counts['parameters']:,}", f"{counts['by_storage']:,}"]
        cells.append(f"{len(unused)}: {listed(unused)}" if unused else "0")
        if arguments is None:
            cells += ["not reached", ""]
        else:
            tried = arguments["tried"] - len(arguments["raises"])
            cells += [f"{len(arguments['without'])} of {tried}", listed(arguments["without"], 99)]
        lines.append([name_of(contender), *cells])
    heads = ["package and class", "parameters", "numbers in storage", "without gradient"]
    heads += ["arguments without effect", "which"]
    return (
        "## Parameters and arguments\n\nParameters as `parameters()` lists them, and the numbers "
        "that lie in their storage. An argument is without effect if the value named changes no "
        "initial weight, output or gradient, in eval and train mode at 48 tokens; values that "
        "the package refuses here are not counted.\n\n"
    ) + table(heads, lines)


def listed(names: list[str], most: int = 2) -> str:
    shown = ", ".join(f"`{name.removeprefix('network.')}`" for name in names[:most])
    return shown + (" …" if len(names) > most else "")


def table_of_scores(rows: Rows, facts: list[dict[str, Any]]) -> str:
    """Scores with intervals beside the rival's, and the ratio of seconds."""
    lines = []
    for (contender, _), values in zip(rows, facts, strict=True):
        trainings = values.get("trainings", {})
        if not any(key.startswith("scores/") for key in trainings):
            continue
        cells = []
        for task in TASK_LABELS:
            package = trainings.get(f"scores/{task}")
            rival = trainings.get(f"rival_scores/{task}")
            ours = f" [{score(rival)}]" if rival else ""
            cells.append(score(package) + ours if package else "–")
        ratio = trainings.get("ratio")
        low, high = ratio["ratios"] if ratio else (None, None)
        cells.append(f"{ratio['ratio']:.2g} ({low:.2g} to {high:.2g})" if ratio else "–")
        lines.append([name_of(contender), contender.rival, *cells])
    heads = ["package and class", "our model", *TASK_LABELS.values(), "steps"]
    return SCORES + "\n" + table(heads, lines)


def score(scores: dict[str, Any]) -> str:
    """A mean and its interval."""
    if "raises" in scores:
        return "raises"
    if scores["mean"] is None:
        return "no number"
    if scores["interval"] is None:
        return f"{scores['mean']:.2f}"
    low, high = scores["interval"]
    return f"{scores['mean']:.2f}, {low:.2f} to {high:.2f}"
