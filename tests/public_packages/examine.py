"""``python -m tests.public_packages.examine SLUG PART FILE LIMIT``: one package by itself.

The package must be importable. PART is "behaviour" or "trainings"; what came out is written to FILE
after each step, so that a process which is stopped after LIMIT CPU-seconds leaves what it has.
"""

import json
import resource
import sys
import time
from pathlib import Path
from typing import Any

import torch
from torch import nn

from tests.public_packages import carried_state, construction, examination
from tests.public_packages.comparing import NO, YES, Outcome, guarded
from tests.public_packages.contender import Contender, Wrapped
from tests.public_packages.contenders import CONTENDERS
from tests.public_packages.trainings import (
    BEFORE_EXAMINATION,
    TASKS,
    configuration,
    ratio_of_steps,
    rival_builder,
    scores,
    train,
    vocabulary_of,
)

EXAMINED_TASK = "regbench"  # or recall, where RegBench takes too long


class Row:
    """What is known of a contender so far; every change is written to its file."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.values: dict[str, Any] = {}

    def put(self, name: str, value: Any) -> None:
        self.values[name] = value.as_json() if isinstance(value, Outcome) else value
        self.file.write_text(json.dumps(self.values, indent=1))


def examine(model: nn.Module, contender: Contender, vocabulary: int, name: str, row: Row) -> None:
    """What holds of one model in both modes."""
    multiple, few = contender.multiple_of, not contender.regbench
    for mode in ("eval", "train"):
        model.train(mode == "train")
        checks = {
            "causal_by_values": lambda: examination.causal_by_values(
                model, vocabulary, multiple, few
            ),
            "causal_by_prefixes": lambda: examination.causal_by_prefixes(
                model, vocabulary, multiple, few
            ),
            "batch_independent": lambda: examination.batch_independent(model, vocabulary, multiple),
            "inputs_unchanged": lambda: examination.inputs_unchanged(model, vocabulary, multiple),
        }
        for check, run in checks.items():
            row.put(f"{check}/{name}/{mode}", guarded(run))
    model.eval()
    row.put(
        f"uses_past/{name}/eval",
        guarded(lambda: examination.uses_past(model, vocabulary, multiple)),
    )
    row.put(
        f"deterministic/{name}/eval",
        guarded(lambda: examination.deterministic(model, vocabulary, multiple)),
    )


def examine_state(model: Wrapped, contender: Contender, vocabulary: int, row: Row) -> None:
    """What holds of a state that is carried from call to call."""
    model.eval()
    for batch in (1, 2):
        outcome = guarded(lambda batch=batch: carried_state.stepwise(model, vocabulary, batch))  # type: ignore[misc]
        row.put(f"stepwise/batch {batch}", outcome)
    checks = {
        "after_prompts": lambda: carried_state.after_prompts(model, contender, vocabulary),
        "several_pieces": lambda: carried_state.several_pieces(model, contender, vocabulary),
        "interleaved": lambda: carried_state.interleaved(model, vocabulary),
        "used_twice": lambda: carried_state.used_twice(model, vocabulary),
        "can_be_copied": lambda: carried_state.can_be_copied(model, vocabulary),
    }
    for name, check in checks.items():
        row.put(name, guarded(check))


def examine_behaviour(contender: Contender, row: Row) -> None:
    """All but scores and times."""
    task = EXAMINED_TASK if contender.regbench else "multi_query_recall"
    settings = configuration(task, contender.rival, *BEFORE_EXAMINATION)
    vocabulary, multiple = vocabulary_of(task), contender.multiple_of
    fresh = construction.build(contender, vocabulary)
    row.put("counts", construction.parameter_counts(fresh, vocabulary, multiple))
    row.put(
        "same_seed_same_model",
        guarded(lambda: construction.same_seed_same_model(contender, vocabulary)),
    )
    fresh = construction.build(contender, vocabulary)
    examine(fresh, contender, vocabulary, "fresh", row)
    row.put("float64", guarded(lambda: construction.works_in_float64(contender, vocabulary)))
    row.put("arguments", construction.arguments_without_effect(contender, vocabulary))
    trained = construction.build(contender, vocabulary)
    row.put("trained_loss", train(trained, settings, seed=0))
    finite = all(bool(torch.isfinite(p).all()) for p in trained.parameters())
    why = (
        "" if finite else "a weight is no number after 100 steps; states are those of fresh weights"
    )
    row.put("trains", Outcome(YES if finite else NO, None, why))
    if finite:
        examine(trained, contender, vocabulary, "trained", row)
    else:
        trained = construction.build(contender, vocabulary)
    examine_state(trained, contender, vocabulary, row)
    row.put(
        "saved_and_loaded",
        guarded(lambda: construction.saved_and_loaded(trained, contender, vocabulary, torch.save)),
    )
    length = contender.long_length
    row.put("numbers", guarded(lambda: examination.numbers_at(trained.eval(), vocabulary, length)))


def examine_trainings(contender: Contender, row: Row, rivals: Path) -> None:
    """Scores of the package and of its rival, whose scores are kept for other packages."""
    for task in TASKS:
        if task != "state_tracking" and not contender.regbench:
            continue
        settings = configuration(task, contender.rival)
        vocabulary = vocabulary_of(task)

        def package(seed: int, vocabulary: int = vocabulary) -> nn.Module:
            return construction.build(contender, vocabulary, seed)

        try:
            if "ratio" not in row.values:
                row.put("ratio", ratio_of_steps(package, rival_builder(settings), settings))
            row.put(f"scores/{task}", scores(package, settings))
        except Exception as error:  # a package may refuse a task's lengths in any way
            row.put(f"scores/{task}", {"raises": f"{type(error).__name__}: {error}"})
        kept = rivals / f"rival_{contender.rival}_{task}.json"
        if not kept.exists():
            kept.write_text(json.dumps(scores(rival_builder(settings), settings)))
        row.put(f"rival_scores/{task}", json.loads(kept.read_text()))


def main() -> None:
    slug, part, file, limit = sys.argv[1:]
    resource.setrlimit(resource.RLIMIT_CPU, (int(limit), int(limit) + 10))
    (contender,) = [c for c in CONTENDERS if c.slug == slug]
    torch.set_num_threads(1)
    row = Row(Path(file))
    start = time.process_time()
    if part == "behaviour":
        examine_behaviour(contender, row)
    else:
        examine_trainings(contender, row, Path(file).parent)
    row.put("cpu_seconds", round(time.process_time() - start, 1))
    row.put("done", True)


if __name__ == "__main__":
    main()
