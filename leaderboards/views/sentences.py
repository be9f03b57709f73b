"""What a table says in plain sentences: who is best, who may be, and who is not ranked, and why."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence

from bench.config.files import shared_file
from bench.config.groups import choices, model_groups
from leaderboards.contents import Row, leading_rows, measured_rows
from leaderboards.render import PRESETS, covered, enumerated, footnotes, name, number
from leaderboards.tables.summaries import YOURS
from leaderboards.views.tables import Brief, RankedTable
from reproduce.claims.fairness import FEWEST, IMPROVING, UNTUNED


def summary(rows: Sequence[Row]) -> str:
    """The table in plain sentences, from ranks; a better predictor without training is named."""
    leaders = leading_rows(rows)
    if not leaders:
        return standing(rows) or _unranked(rows)
    best = leaders[0]
    reference = _better_reference(rows, best)
    if len(leaders) == 1:
        among = " of the trained models" if reference else ""
        text = f"{name(best)} is best{among}: {best.metric} {number(best.mean or 0.0)}, "
        text += "and its 95 % interval overlaps no other."
    else:
        among = " of the trained" if reference else ""
        text = f"Not settled: {_row_names(leaders, 'or')} may be best{among}, since their 95 % "
        text += "intervals overlap."
    return " ".join(filter(None, (text + _without_training(reference), standing(rows))))


def scale_note(rows: Sequence[Row], tables_of_task: Iterable[RankedTable[Brief]]) -> str:
    """What a preset's numbers may be compared with, if the task has published ones."""
    preset = rows[0].preset
    if not any(row.source for table in tables_of_task for row in table.rows):
        return ""
    if preset == PRESETS[-1]:
        return "Published settings. Published numbers are never ranked with ours."
    return (
        f"Preset {preset} is not the scale of the papers: its numbers compare with each other, not "
        "with published ones."
    )


def notes(rows: Sequence[Row]) -> list[str]:
    """What a reader of a table's numbers must know."""
    return [
        f"Mean and 95 % interval {covered(rows)}. A rank is a range where intervals overlap. Rows "
        "without an interval or with a failed seed, rows that are not tuned and converged, "
        "references and published numbers have none.",
        *footnotes(rows),
    ]


def standing(rows: Sequence[Row]) -> str:
    """Which measured rows are left out of the ranking since they are not tuned and converged, and
    which had other numbers of trials; "" where that is none."""
    measured = measured_rows(rows)
    unfair = [row for row in measured if not row.fair]
    sent = [row for row in measured if not row.verified]
    ranked = [row for row in measured if row.rank_best is not None]
    sentences = []
    if unfair and ranked:
        why = [row.mark if row.outcome == "ok" else row.outcome.replace("_", " ") for row in unfair]
        below = ", ".join(f"{name(row)} ({word})" for row, word in zip(unfair, why, strict=True))
        sentences.append(f"Only rows that are tuned and converged are ranked; below stand {below}.")
    elif unfair:
        fair, of = len(measured) - len(unfair), len(measured)
        verb, reason = (
            ("is", "a ranking needs two") if fair < 2 else ("are", "no two have intervals")
        )
        share = f"{fair or 'none'} of {of} rows {verb}" if of > 1 else "its one row is not"
        sentences.append(f"No ranking: {share} tuned and converged, and {reason}.")
        sentences += _how_to_tune(unfair)
    sentences += _how_to_validate(unfair)
    if sent and any(row.verified for row in measured):
        sentences.append(f"Submitted, not run again and so not ranked: {_row_names(sent, 'and')}.")
    return " ".join([*sentences, *_trials([row for row in ranked if row.mark])])


def _how_to_tune(rows: Sequence[Row]) -> list[str]:
    """The command that tunes the rows of the reader's own that are untuned; none where none is."""
    untuned = [row for row in rows if row.origin == YOURS and row.mark == UNTUNED]
    if not untuned:
        return []
    # A class of a file has a place on its owner's machine, which no record holds.
    first, known = untuned[0], {model for group in model_groups() for model in choices(group)}
    task = first.task if first.task in choices("tasks") else f"FILE.py:{first.task}"
    models = []
    for row in untuned:
        models.append(row.model if row.model in known else f"FILE.py:{row.model}")
    models = list(dict.fromkeys(models))
    word = f"models={models[0]}" if len(models) == 1 else f'"models=[{",".join(models)}]"'
    preset, why = first.preset, ""
    if preset == PRESETS[0] and _has_one_setting(first.task, preset):
        preset, why = PRESETS[1], f" (at {preset} it has one setting to try)"
    command = f"python -m bench.sweep tasks={task} preset={preset} {word}{why}"
    return [f"To tune: {command}, with the settings that your runs had."]


def _has_one_setting(task: str, preset: str) -> bool:
    """Whether the sweep of a task of this project tries but one setting at a preset."""
    if task not in choices("tasks"):
        return False
    content = shared_file("tasks", task)
    sweep = {**content.get("sweep", {}), **content["presets"][preset].get("sweep", {})}
    settings = math.prod(map(len, sweep.get("search_space", {}).values()))
    return min(settings, sweep.get("n_trials", 1)) < 2


def _how_to_validate(rows: Sequence[Row]) -> list[str]:
    """The setting by which rows of the reader's own show whether their training has stopped; none
    where all were validated often enough."""
    unknown = [row for row in rows if row.origin == YOURS and _is_validated_too_seldom(row)]
    if not unknown:
        return []
    steps = [row.training_steps for row in unknown if row.training_steps]
    # Then the last fifth of the shortest training has two or more.
    often = max(1, min(steps) // 10) if steps else "N"
    return [
        f"Validated too seldom to tell whether it has stopped improving: "
        f"{_row_names(unknown, 'and')}; training.validate_every={often} tells."
    ]


def _is_validated_too_seldom(row: Row) -> bool:
    few = f"less than {FEWEST} validations"  # as the reason of the mark says
    return any(mark.startswith(IMPROVING) and few in mark for mark in row.marks)


def _trials(rows: Sequence[Row]) -> list[str]:
    """A sentence on who had other numbers of tuning trials than most; none where all are equal."""
    counts = Counter(row.trials or 0 for row in rows)
    if len(counts) < 2:
        return []
    most, usual = max(counts), counts.most_common(1)[0][0]
    if counts[usual] * 2 <= len(rows):  # there is no usual number
        usual = most
    each = ", ".join(f"{name(row)} {row.trials}" for row in rows if (row.trials or 0) != usual)
    if usual == most:
        return [f"Fewer tuning trials than the {most} of others: {each}."]
    return [f"Each had {usual} tuning trials, but {each}."]


def _unranked(rows: Sequence[Row]) -> str:
    """Why nothing is ranked where every row could be."""
    measured = measured_rows(rows)
    comparable = [row for row in measured if row.outcome == "ok" and row.direction]
    if not measured and any(row.origin for row in rows):
        return "No row here is ranked: these repeat rows of the board, or need no training."
    if not measured:
        return "Nothing of ours is measured here yet: these are published numbers."
    single = any(row.seeds == 1 for row in measured)
    if len(alone := [row for row in comparable if row.low is not None]) == 1:
        condition = "measured with two seeds or more" if single else "measured"
        reference = _without_training(_better_reference(rows, alone[0]))
        only = f"Only {name(alone[0])} is {condition} here"
        return f"{only}: there is nothing to rank it with.{reference}"
    if any(row.outcome == "ok" and row.seeds == 1 for row in measured):
        return "Nothing can be ranked here yet: a rank needs two seeds or more."
    if comparable and not alone:
        return "Nothing can be ranked here: seeds that are all equal give no interval."
    return "No measured row can be ranked here."


def _without_training(reference: Row | None) -> str:
    if reference is None:
        return ""
    return f" Without training the {name(reference)} reaches {number(reference.mean or 0.0)}."


def _better_reference(rows: Iterable[Row], best: Row) -> Row | None:
    """The best predictor without training if it is better than ``best``.

    An oracle knows what nothing can learn, so it never counts.
    """
    sign = 1 if best.direction == "maximise" else -1
    better, least = None, sign * best.mean if best.mean is not None else math.inf
    for row in rows:
        is_learnable = row.kind == "reference" and not row.model.startswith("oracle")
        if is_learnable and row.mean is not None and sign * row.mean > least:
            better, least = row, sign * row.mean
    return better


def _row_names(rows: Sequence[Row], conjunction: str) -> str:
    names = list(map(name, rows))
    if len(names) > 4:
        names = [*names[:3], f"{len(names) - 3} more"]
    return enumerated(names, conjunction)
