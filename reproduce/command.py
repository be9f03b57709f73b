"""``python -m reproduce NAME``: what is missing is run, the figure drawn, its claims judged.

With ``records=FOLDER`` nothing is run and PyTorch is not imported: the figure and the verdicts are
pure functions of records.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

from bench.config.command_line import read_with_lists
from bench.config.groups import with_guests
from bench.records.schema import RunRecord
from bench.records.store import COMMITTED, Store
from core.collector import collector_paused
from core.errors import CLAIM_CONTRADICTED, OK, RUN_FAILED, UserError, nearest
from core.words import by_name, texts
from reproduce import committed, same, usage
from reproduce.claims import frozen, repeats
from reproduce.claims.controls import without_untrained
from reproduce.claims.verdicts import CONTRADICTED
from reproduce.console import print_verdicts
from reproduce.experiment import Experiment
from reproduce.obtaining import existing, has_no_text
from reproduce.request import Request
from reproduce.writing import judge_again, write


def main(words: Sequence[str], reproductions: Mapping[str, Experiment]) -> int:
    """List the reproductions, or make one. Exit code 3: strict, and a claim is contradicted."""
    if not words:
        print("python -m reproduce NAME [key=value ...]; --help says more\n")
        for name, listed in sorted(reproductions.items(), key=lambda item: _natural(item[0])):
            print(f"  {name:10} {listed.title}\n{'':13}{listed.source}")
        return OK
    name, *rest = words
    values = texts(rest)
    if name == "claims":
        hashes = {}
        for figure, experiment in reproductions.items():
            hashes[figure] = [claim.hashes for claim in experiment.claims]
        is_update = _is_update(values, frozen.HELP)
        return frozen.main(is_update, hashes, partial(judge_again, reproductions))
    if name == "repeats":
        return repeats.main(_is_update(values, repeats.HELP))
    if name == "verdicts":
        return committed.main(_is_update(values, usage.VERDICTS), reproductions)
    if name == "same":
        return same.main(values)
    if name == "untrained":
        return int(by_name("reproduce.untrained:main")(read_with_lists(rest)))
    if name not in reproductions:
        raise UserError(f"there is no reproduction '{name}': {nearest(name, reproductions)}")
    experiment = reproductions[name]
    typed = {word.partition("=")[0]: word for word in rest}
    request = Request.of(read_with_lists(rest), name, experiment, typed)
    with with_guests(request.guests), collector_paused():
        return _make(name, experiment, request)


def _is_update(values: Mapping[str, str | None], help_text: str) -> bool:
    """Whether a committed file is written (``update=true``) or compared; nothing else is asked."""
    if values not in ({}, {"update": "true"}):
        typed = (key if value is None else f"{key}={value}" for key, value in values.items())
        raise UserError(f"'{' '.join(typed)}' cannot be given here\n{help_text}")
    return bool(values)


def _make(name: str, experiment: Experiment, request: Request) -> int:
    """The figure and the verdicts that were asked for; the exit code of ``main``."""
    if request.records is None and has_no_text(request, experiment):
        print(
            "The text of the committed records is not on this machine, so their verdicts and "
            f"picture are shown; to make the runs anew: python -m reproduce {name} "
            f"preset={request.view.preset} committed=false corpus=tinystories_sample, which reads "
            "the public datasets, or stories=PATH (and wiki=PATH) with a copy of them\n"
        )
        request = replace(request, records=COMMITTED)
    if request.records is None:
        request = request.with_text(experiment)
    if request.dry_run:
        by_name("reproduce.foretelling:foretell_runs")(request, experiment)
        return OK
    source = request.records
    if source is not None:
        records = existing(request, experiment, source)
    else:
        records = by_name("reproduce.making:get_or_run_all")(request, experiment)
    folder = Store(request.store).reproductions / name / request.view.folder
    results = write(name, experiment, records, request.view, folder)
    shown_records = without_untrained(records)
    print_verdicts(name, experiment, results, shown_records, request.view, folder, request.store)
    if _failed_altogether(shown_records):
        return RUN_FAILED
    contradicted = any(result.finding.verdict == CONTRADICTED for result in results)
    return CLAIM_CONTRADICTED if request.strict and contradicted else OK


def _failed_altogether(records: Sequence[RunRecord]) -> bool:
    """Whether all runs failed or diverged, or a model gave nothing and it was not for diverging,
    which is a result."""
    outcomes: dict[str, set[str]] = defaultdict(set)
    for record in records:
        if record.role != "baseline":
            outcomes[record.model].add(record.outcome)
    without_result = [names for names in outcomes.values() if "ok" not in names]
    none_finished = 0 < len(without_result) == len(outcomes)
    return none_finished or any("failed" in names for names in without_result)


def _natural(name: str) -> list[tuple[str, int]]:
    return [(word, int(number or 0)) for word, number in re.findall(r"(\D+)(\d*)", name)]
