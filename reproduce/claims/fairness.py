"""What a trained row lacks for a fair ranking: marks, from the final records of one setting.

A row is *tuned* where a search of more than one setting chose it inside the values that it tried,
and its validation had stopped improving. Otherwise it is, the gravest first, *untuned*, *not
chosen*, *still improving* or on an *edge*; a row may be several of these.

Example: ``marks(records)[0].word`` is what a table shows.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from bench.records.schema import Curve, RunRecord, Study

TUNED, EDGE, IMPROVING, UNTUNED = "tuned", "edge", "still improving", "untuned"
NOT_CHOSEN = "not chosen"
WORDS = (UNTUNED, NOT_CHOSEN, IMPROVING, EDGE, TUNED)  # the gravest first

LAST = 0.2  # share of the steps over which a run must have stopped improving
STOPPED = 0.01  # of all that the validation loss fell in the run: so much more is an improvement
FEWEST = 2  # points of the validation in the last fifth, from its first step on


class Mark(NamedTuple):
    """One of ``WORDS``, and why."""

    word: str
    why: str

    def __str__(self) -> str:
        return f"{self.word}: {self.why}"


def marks(records: Sequence[RunRecord], *, searched_elsewhere: bool = False) -> tuple[Mark, ...]:
    """What the records of one setting lack, the gravest first, or that it is tuned; none where no
    optimiser of the engine trained anything (predictors, memories that are measured by themselves).

    A search chooses a setting: its further seeds, which other commands trained, need no search of
    their own.

    Args:
        searched_elsewhere: whether a search of this model, of the same size and
            steps, chose another setting.
    """
    if not any(is_trained(record) for record in records):
        return ()
    searched = [record for record in records if record.study] or records
    lacking = {mark for record in searched for mark in _choice(record)}
    if searched_elsewhere and not any(record.study for record in records):
        reason = (
            "no search of its own; what that of this model, of the same size, chose is another row"
        )
        lacking = {Mark(NOT_CHOSEN, reason)}
    converged, reason = convergence(records)
    if not converged:
        lacking.add(Mark(IMPROVING, reason))
    if lacking:
        return tuple(sorted(lacking, key=lambda mark: (WORDS.index(mark.word), mark.why)))
    study = searched[0].study
    count = len(_tried(study)) if study else 0
    by_all = study is not None and _over_seeds(study)
    over_seeds = " by the mean over seeds" if by_all else " by the first seed alone"
    chosen = f"chosen from {count} settings{over_seeds}, none of its values on an edge"
    return (Mark(TUNED, f"{chosen}; {reason}"),)


def not_ranked(rows: Iterable[tuple[str, Sequence[RunRecord]]]) -> str:
    """The rows that no table ranks, by their labels, and why: "GPT2 is still improving". Empty if
    all are tuned, and at smoke, which tests the machinery and tunes nothing."""
    sentences = []
    for label, records in rows:
        beyond_smoke = [record for record in records if record.preset != "smoke"]
        if words := [mark.word for mark in marks(beyond_smoke) if mark.word != TUNED]:
            verb = "is" if words[0] in (IMPROVING, UNTUNED) else "is on an"
            sentences.append(f"{label} {verb} {' and on an '.join(dict.fromkeys(words))}")
    return ", ".join(sentences)


def is_trained(record: RunRecord) -> bool:
    """Whether the engine trained what was measured."""
    training = record.config.get("training", {})
    return record.role != "baseline" and bool(training.keys() & {"steps", "epochs"})


def _choice(record: RunRecord) -> Iterator[Mark]:
    """What is wrong with how the setting of a record was chosen."""
    study = record.study
    tried = _tried(study) if study else []
    if study is None or len(tried) < 2:
        yield Mark(UNTUNED, f"{len(tried) or 'no'} setting tried" if study else "no search")
        return
    chosen = {key: _value(record, key) for key in study.search_space}
    values = [trial.score for trial in study.trials if trial.parameters == chosen]
    scores = [trial.score for trial in study.trials if trial.score is not None]
    best = max if record.headline.direction == "maximise" else min
    if not scores or best(scores) not in values:
        yield Mark(UNTUNED, "its setting is not the best of those that were tried")
        return
    for key in study.search_space:
        reached = [setting[key] for setting in tried if key in setting]
        if side := _edge(chosen[key], reached, len(study.search_space[key])):
            listed = ", ".join(f"{value:g}" for value in sorted(set(reached)))
            yield Mark(EDGE, f"{key}={chosen[key]:g} is the {side} value tried of {listed}")


def _over_seeds(study: Study) -> bool:
    return any(trial.over_seeds for trial in study.trials)


def _tried(study: Study) -> list[dict[str, Any]]:
    """The different settings that came to an end of their own, failures included."""
    settings: list[dict[str, Any]] = []
    for trial in study.trials:
        if trial.outcome != "interrupted" and trial.parameters not in settings:
            settings.append(trial.parameters)
    return settings


def _value(record: RunRecord, key: str) -> Any:
    section, _, name = key.partition(".")
    return record.config.get(section, {}).get(name)


def _edge(chosen: Any, tried: Sequence[Any], listed: int) -> str | None:
    """Which end of the values of a searched number the chosen one is. A value that every run failed
    at is no end, since it was tried; nothing lies below 0, or below 1 of whole numbers."""
    if listed < 2 or not all(type(value) in (int, float) for value in (chosen, *tried)):
        return None
    if chosen == max(tried):
        return "largest"
    lowest = 1 if all(type(value) is int for value in tried) else 0
    return "smallest" if chosen == min(tried) and chosen > lowest else None


def convergence(records: Sequence[RunRecord]) -> tuple[bool, str]:
    """Whether the validation loss has stopped falling over the last fifth of the steps, and why so.

    The fall from the fifth's first step (between two points: on the line through them) to the
    validation that the run kept is taken as a share of the whole fall. It has stopped where its
    mean over seeds is at most ``STOPPED``, or no more than the noise: all that the validation rose
    in between. The noise is not taken over seeds, since a seed that learns late is none.
    """
    finished = [record for record in records if record.outcome == "ok"]
    shares_by_seed = [late for late in map(_late, finished) if late is not None]
    if not finished or len(shares_by_seed) < len(finished):
        return False, (
            "nothing shows that it has stopped, with less than "
            f"{FEWEST} validations over the last {LAST:.0%} of the steps"
        )
    fall, rise = (statistics.fmean(shares) for shares in zip(*shares_by_seed, strict=True))
    sentence = f"{fall:.1%} of the whole fall of its validation loss came in the last {LAST:.0%}"
    return fall <= max(STOPPED, rise), f"{sentence} of the steps"


def _late(record: RunRecord) -> tuple[float, float] | None:
    """How far the validation loss fell and rose in the last fifth, as shares of its whole fall;
    None where there are too few points."""
    curve = record.curves.get("validation_loss", Curve(x=[], y=[]))
    training = record.config.get("training", {})
    steps = training.get("steps") or (curve.x[-1] if curve.x else 0)
    start = (1 - LAST) * steps
    late = [y for x, y in zip(curve.x, curve.y, strict=True) if x >= start]
    if len(late) < FEWEST or curve.x[-1] < steps:
        return None
    kept_loss = min(late) if training.get("select") == "best_validation" else late[-1]
    # The first training loss stands for the validation before any step, which nobody measured.
    trained = record.curves.get("training_loss", curve)
    whole = max([*trained.y[:1], curve.y[0]]) - kept_loss
    if whole <= 0:
        return 0.0, 0.0
    path = [_at(curve, start), *late]
    rise = sum(max(after - before, 0.0) for before, after in pairwise(path))
    return (path[0] - kept_loss) / whole, rise / whole


def _at(curve: Curve, x: float) -> float:
    """The curve at ``x``, on the line between its neighbours."""
    after = next(place for place, other in enumerate(curve.x) if other >= x)
    if after == 0 or curve.x[after] == x:
        return curve.y[after]
    (x0, x1), (y0, y1) = curve.x[after - 1 : after + 1], curve.y[after - 1 : after + 1]
    return y0 + (y1 - y0) * (x - x0) / (x1 - x0)
