"""Recall against the size of the state: every sequence model on one plot, a curve for each."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, NamedTuple

from bench.config.groups import contenders
from bench.records.schema import RunRecord
from reproduce.claims.claims import Claim
from reproduce.claims.fairness import TUNED, marks
from reproduce.claims.grammar import (
    Number,
    Records,
    Rule,
    Runs,
    above,
    each,
    once,
    provided,
    setting,
    within,
)
from reproduce.drawing import tables
from reproduce.drawing.traces import over_seeds, summary
from reproduce.experiment import Experiment, Sweep
from reproduce.multi_query_recall import runs
from reproduce.multi_query_recall.multi_query_recall import (
    ALL_RIGHT,
    BETTER_THAN_A_GUESS,
    ENOUGH_STEPS,
    trained,
)
from reproduce.multi_query_recall.runs import PLAIN, label
from reproduce.plotting.panels import Axis, Panel, PanelRow, Picture, Remark, Trace

TITLE = "Multi-query recall by the bytes that a sequence keeps"
ZOOLOGY = "Arora et al. 2023, Zoology (arXiv 2312.04927), figure 2"
DELTA = "Yang et al. 2024, Parallelizing linear transformers with the delta rule (arXiv 2406.06484)"
KIMI = "Kimi Team 2025, Kimi Linear (arXiv 2510.26692), section 5.1: synthetic tests"
MECHANISMS = "Arora et al. 2025, Mechanistic evaluation of transformers and SSMs (arXiv 2505.15105)"

# A sum of pairs with the convolution that the delta rule has, so that its writes alone differ; and
# the delta rule without one.
SUM, RULE = ("linear_transformer", 4), ("delta_net", 4)
ALONE = ("delta_net", 1)
NAMES = {
    SUM: "Linear transformer with a short convolution",
    ALONE: "DeltaNet without its convolution",
}
# Where rule and sum are compared, three data leave an interval of 0.8, and the steps of all others
# leave both still improving.
DATA_SEEDS = 32
LESS, MORE = 0.2, 0.05
NOT_RANKED = "not ranked: still improving, on an edge or untuned"
# Where they are widest, with the steps that the slow ones of figure multi_query_recall take: after
# those of all others they guess, and whoever guesses is behind for want of training.
PATIENT = ("h3", "hyena")


def sweeps(preset: str) -> list[Sweep]:
    """What figure multi_query_recall sweeps at several widths, and the two variants; where rule and
    sum are compared, and of those that need more steps than all others, trainings of more."""
    narrowest, widest = runs.WIDTHS[preset][0], runs.WIDTHS[preset][-1]
    cells = [(SUM, width) for width in runs.WIDTHS[preset]] + [(ALONE, widest)]
    planned = runs.plain_sweeps(preset)
    for (model, taps), width in cells:
        cell = {**runs.plain(preset, width), "models.convolution": taps}
        planned.append(Sweep(runs.TASK, [model], cell))
    if preset in runs.NARROW_STEPS:
        long = {**runs.of_length(runs.NARROW_STEPS[preset]), "sweep.data_seeds": DATA_SEEDS}
        for model, taps in (RULE, SUM):
            cell = {**runs.plain(preset, narrowest), "models.convolution": taps}
            planned.append(Sweep(runs.TASK, [model], {**cell, **long}))
    if preset in runs.LONG_STEPS:
        cell = {**runs.plain(preset, widest), **runs.of_length(runs.LONG_STEPS[preset])}
        planned.append(Sweep(runs.TASK, PATIENT, cell))
    return planned


def _of_plain_cells(record: RunRecord) -> bool:
    task = record.config["tasks"]
    plain = record.task == "multi_query_recall" and task["protocol"] == "as_set"
    return plain and len(task["pairs"]) > 1 and not task["rewritten"]


def cell(record: RunRecord) -> bool:
    """Whether task and steps are those of the plain cells, whoever the model is."""
    return _of_plain_cells(record) and not runs.more_than_plain(record)


def longer(record: RunRecord) -> bool:
    """Whether it has the task of the plain cells, and the steps of the two that are compared."""
    steps = runs.NARROW_STEPS.get(record.preset)
    return _of_plain_cells(record) and runs.steps(record) == steps


def patient(record: RunRecord) -> bool:
    """Whether it has the task of the plain cells, and the steps of those that guess without."""
    if record.model not in PATIENT or not _of_plain_cells(record):
        return False
    return runs.steps(record) == runs.LONG_STEPS.get(record.preset)


def variant(record: RunRecord) -> tuple[int, int | None, bool]:
    """What tells apart the runs of one model: its width, the taps of its convolution, and whether
    it has more steps than the plain cells."""
    more = longer(record) or patient(record)
    return runs.width(record), setting(record, "models.convolution"), more


def _belongs(record: RunRecord) -> bool:
    """Whether it is of a model that takes part, or of a variant, in the cells with several numbers
    of pairs."""
    if record.role in ("trial", "baseline"):
        return False
    variant = (record.model, setting(record, "models.convolution"))
    takes_part = variant in NAMES or record.model in contenders(runs.TASK, record.preset)
    return takes_part and (cell(record) or longer(record) or patient(record))


def of(
    model: str,
    width: int | None = None,
    taps: int | None = None,
    choose: Callable[[RunRecord], bool] = cell,
) -> Runs:
    """Finals of one model; of one width, with a convolution of so many taps."""
    name = NAMES.get((model, taps or 0)) or label(model)
    settings = {"models.width": width, "models.convolution": taps}
    fixed = {key: value for key, value in settings.items() if value is not None}
    says = name if width is None else f"{name}, width {width}"
    return Runs(says, "multi_query_recall", model, fixed, choose=choose)


def widths(records: Records) -> list[int]:
    """The widths that were run, from narrow to wide."""
    return sorted({runs.width(record) for record in records if cell(record)})


def most(records: Records) -> int:
    """The largest number of pairs."""
    return max(
        (n for r in records if _of_plain_cells(r) for n in r.config["tasks"]["pairs"]), default=0
    )


class Kind(NamedTuple):
    """What has a curve and a row of its own: a model; with the taps of a variant's convolution, and
    with the steps of those that took more than all others, else 0."""

    model: str
    taps: int
    steps: int

    @property
    def name(self) -> str:
        """As the legend has it."""
        name_shown = NAMES.get((self.model, self.taps)) or label(self.model)
        return f"{name_shown}, {self.steps:,} steps" if self.steps else name_shown


def kind(record: RunRecord) -> Kind:
    """The curve that a run belongs to."""
    taps = setting(record, "models.convolution") or 0
    steps = 0 if cell(record) else runs.steps(record)
    return Kind(record.model, taps if (record.model, taps) in NAMES else 0, steps)


def by_kind(records: Records) -> dict[Kind, dict[int, list[RunRecord]]]:
    """The runs of each curve by width, from narrow to wide."""
    groups: dict[Kind, dict[int, list[RunRecord]]] = {}
    for record in sorted(records, key=lambda record: (kind(record), runs.width(record))):
        by_width = groups.setdefault(kind(record), {})
        by_width.setdefault(runs.width(record), []).append(record)
    return groups


def picture(records: Records) -> Picture:
    """One panel: accuracy at the most pairs against bytes, a line through the widths; hollow where
    no table ranks what was measured."""
    pairs, traces = most(records), []
    for curve, by_width in by_kind(records).items():
        traces += _curve(curve, by_width.values(), f"accuracy/{pairs}")
    traces.sort(key=lambda trace: trace.legend == NOT_RANKED)  # last in the legend
    guess = [Remark("guess", y=1 / pairs)] if pairs else []
    x = Axis("bytes that a sequence keeps", scale="log")
    y = Axis("accuracy", limits=(-0.03, 1.05))
    title = f"{pairs} pairs, one layer, widths {', '.join(map(str, widths(records)))}"
    panel = Panel(title, x, y, traces, guess)
    silent = ", ".join(_silent(records))
    note = f"not in the picture, since state_bytes does not say: {silent}" if silent else ""
    return Picture(TITLE, [PanelRow([panel], height=4.5)], note=note, legend="below", columns=3)


def _silent(records: Records) -> list[str]:
    """What does not say how much it keeps."""
    silent = []
    for curve, by_width in by_kind(records).items():
        if not any(map(runs.state_of, by_width.values())):
            silent.append(curve.name)
    return silent


def _curve(curve: Kind, groups: Iterable[Records], metric: str) -> list[Trace]:
    """Accuracy against bytes; and, hollow, of the widths that no table ranks."""
    by_state, unranked = {}, {}
    for group in groups:
        if size := runs.state_of(group):
            by_state[size] = group
            if _lacks(group):
                unranked[size] = group
    look: dict[str, Any] = {"colour": curve.model}
    if curve.taps or curve.steps:  # a variant, or more steps, beside the model as it is
        look["line"] = "dotted" if curve.taps else "dashed"
    traces = []
    if by_state:
        traces.append(over_seeds(curve.name, by_state, metric, **look))
    if unranked:
        look |= {"mark": "dots", "hollow": True, "legend": NOT_RANKED}
        traces.append(over_seeds(f"{curve.name}, {NOT_RANKED}", unranked, metric, **look))
    return traces


def _lacks(group: Records) -> list[str]:
    """Why no table ranks the runs of one setting; nothing at smoke, which tunes nothing."""
    words = [mark.word for mark in marks(group) if mark.word != TUNED]
    return [] if group[0].preset == "smoke" else list(dict.fromkeys(words))


def table(records: Records) -> str:
    """Accuracy, bytes and marks of each model at each width."""
    sizes, metric, rows = widths(records), f"accuracy/{most(records)}", []
    for curve, by_width in by_kind(records).items():
        cells = [_cell(by_width[size], metric) if size in by_width else "" for size in sizes]
        rows.append([curve.name, *cells])
    text = tables.markdown(["model", *(f"width {size}" for size in sizes)], rows)
    if silent := _silent(records):
        text += f"\nNot in the picture, since `state_bytes` does not say: {', '.join(silent)}."
    return text


def _cell(group: Records, metric: str) -> str:
    accuracy, size = summary(group, metric), runs.state_of(group)
    if accuracy.mean is None:
        return tables.cell(accuracy)
    says = [f"{size:,} bytes" if size else "bytes unknown", *_lacks(group)]
    return f"{accuracy.mean:.3f} ({', '.join(says)})"


def _accuracy(records: Records, measured: Runs) -> Number:
    return Number(
        "accuracy",
        f"accuracy/{most(measured.of(records))}",
        items=lambda record: int(setting(record, "tasks.test_size")),
    )


def keeps_every_pair(model: str, taps: int | None = None) -> Rule:
    """Nearly all right at the most pairs, at every width; of a width that was trained for longer as
    well, those runs speak."""

    def rules(records: Records) -> list[Rule]:
        usual = [of(model, size, taps) for size in widths(records)]
        long = [of(model, size, taps, longer) for size in widths(records)]
        longest = [b if b.of(records) else a for a, b in zip(usual, long, strict=True)]
        return [within(_accuracy(records, row).of(row), low=ALL_RIGHT) for row in longest]

    return each(rules, f"accuracy of {ALL_RIGHT:g} or more at the most pairs, at every width")


def _narrowest(records: Records) -> list[Runs]:
    size = min(widths(records), default=0)
    steps = longer if records and records[0].preset in runs.NARROW_STEPS else cell
    return [of(model, size, taps, steps) for model, taps in (RULE, SUM)]


def _rule_above_sum(records: Records) -> list[Rule]:
    rule, total = _narrowest(records)
    a, b = (_accuracy(records, row).of(row) for row in (rule, total))
    return [above(a, b, MORE)]


def _behind(records: Records) -> list[Rule]:
    size = max(widths(records), default=0)
    ahead = of(RULE[0], size, RULE[1])
    number = _accuracy(records, ahead)
    rules = []
    for model in PATIENT:
        long = of(model, size, choose=patient)
        rival = long if long.of(records) else of(model, size)
        rules.append(
            provided(_recalls(records, rival), above(number.of(ahead), number.of(rival), LESS))
        )
    return rules


def _recalls(records: Records, rival: Runs) -> Rule:
    """The rival has learned to recall: the fewest pairs, surely better than by a guess."""
    fewest = min((n for r in rival.of(records) for n in r.config["tasks"]["pairs"]), default=1)
    number = _accuracy(records, rival)
    at_fewest = replace(number, name=f"accuracy at {fewest} pairs", read=f"accuracy/{fewest}")
    return within(at_fewest.of(rival), low=1 / fewest + BETTER_THAN_A_GUESS)


def _by_channel_above_by_head(records: Records) -> list[Rule]:
    """Judged where the decay of each head has begun to recall: two that guess recall alike."""
    size = min(widths(records), default=0)
    channel, head = (of(model, size) for model in runs.GATED)
    number = _accuracy(records, head)
    begun = within(number.of(head), low=1 / max(most(records), 1))
    return [provided(begun, above(number.of(channel), number.of(head), MORE))]


def _convolved_above_alone(records: Records) -> list[Rule]:
    a, b = (_accuracy(records, row).of(row) for row in _with_and_without(records))
    return [above(a, b, LESS)]


def _with_and_without(records: Records) -> list[Runs]:
    size = max(widths(records), default=0)
    return [of(model, size, taps) for model, taps in (RULE, ALONE)]


BEHIND = (
    f"accuracy lower than DeltaNet by more than {LESS:g}, widest; judged where it is surely "
    f"{BETTER_THAN_A_GUESS:g} better than a guess at the fewest pairs"
)
READY = trained(ENOUGH_STEPS, PLAIN)
CLAIMS = (
    Claim(
        "the delta rule keeps every pair",
        "DeltaNet recalls every pair at every width.",
        once(READY, keeps_every_pair(*RULE)),
        source=f"{DELTA}, figure 2",
    ),
    Claim(
        "the delta rule recalls more than a sum",
        "A memory that corrects what it would have answered recalls more than one of the same "
        "shape that only adds.",
        once(READY, each(_rule_above_sum, f"accuracy higher by more than {MORE:g}, narrowest")),
        source=f"{DELTA}, section 2 and figure 2",
        ranks=_narrowest,
    ),
    Claim(
        "one layer needs its convolution",
        "One layer of the delta rule recalls clearly less where no convolution joins a value to "
        "its key.",
        once(READY, each(_convolved_above_alone, f"accuracy higher by more than {LESS:g}, widest")),
        ranks=_with_and_without,
        source=f"{MECHANISMS}: recall in the convolution; one layer sees no neighbour without it",
    ),
    Claim(
        "decays by channel recall sooner",
        "After the same steps the gated delta rule recalls more with a decay for each channel than "
        "with one for each head.",
        once(
            READY,
            each(
                _by_channel_above_by_head,
                f"accuracy of KDA higher than Gated DeltaNet's by more than {MORE:g}, narrowest; "
                "judged where Gated DeltaNet is surely better than a guess",
            ),
        ),
        source=KIMI,
    ),
    Claim(
        "H3 and Hyena fall behind",
        "H3 and Hyena, whose writes do not depend on what was stored, recall clearly less.",
        once(READY, each(_behind, BEHIND)),
        source=MECHANISMS,
    ),
)
EXPERIMENT = Experiment(
    TITLE,
    f"{ZOOLOGY}; {DELTA}; {MECHANISMS}; {KIMI}",
    CLAIMS,
    sweeps=sweeps,
    records=[_belongs],
    panels=picture,
    variant=variant,
    varied=("tasks.pairs", "models.width", "models.convolution"),
    table=table,
)
