"""Recall against the size of the state: every sequence model on one plot, a curve for each."""

from __future__ import annotations

from collections.abc import Callable
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
    any_of,
    each,
    once,
    provided,
    setting,
    within,
)
from reproduce.drawing import tables
from reproduce.drawing.traces import over_seeds, summary
from reproduce.multi_query_recall import runs
from reproduce.multi_query_recall.multi_query_recall import (
    ALL_RIGHT,
    BETTER_THAN_A_GUESS,
    ENOUGH_STEPS,
    trained,
)
from reproduce.multi_query_recall.runs import PLAIN, label
from reproduce.plotting.panels import Axis, Panel, Picture, Remark, Row, Trace
from reproduce.reproduction import Plan, Reproduction

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


def plan(preset: str, seeds: int | None) -> Plan:
    """What figure multi_query_recall sweeps at several widths, and the two variants."""
    sizes = runs.plain_cells(preset)
    variants = [
        (*words, f"models={model}", f"models.convolution={taps}")
        for model, taps, asked in ((*SUM, sizes), (*ALONE, sizes[-1:]))
        for words in asked
    ]
    narrowest = [
        (
            *(*sizes[0], f"models={model}", f"models.convolution={taps}"),
            *(*runs.more_steps(runs.NARROW_STEPS, preset), f"sweep.data_seeds={DATA_SEEDS}"),
        )
        for model, taps in (RULE, SUM)
        if preset in runs.NARROW_STEPS
    ]
    plain = runs.plain_sweeps(preset)
    return Plan(sweeps=(*plain, *variants, *narrowest, *_patient_cells(preset)))


def _patient_cells(preset: str) -> list[tuple[str, ...]]:
    """The widest of those that need more steps than all others."""
    own = f"models=[{','.join(PATIENT)}]"
    widest = runs.plain_cells(preset)[-1]
    return [(*widest, own, *runs.more_steps(runs.LONG_STEPS, preset))] * (preset in runs.LONG_STEPS)


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


def _asked(record: RunRecord) -> bool:
    one = (record.model, setting(record, "models.convolution"))
    return one in NAMES or record.model in contenders("multi_query_recall", record.preset)


# Runs of every contender and of the variants, in the cells with several numbers of pairs.
select = any_of(
    lambda r: (
        r.role not in ("trial", "baseline") and (cell(r) or longer(r) or patient(r)) and _asked(r)
    )
)


def of(
    model: str,
    width: int | None = None,
    taps: int | None = None,
    choose: Callable[[RunRecord], bool] = cell,
) -> Runs:
    """Finals of one model; of one width, with a convolution of so many taps."""
    name = NAMES.get((model, taps or 0)) or label(model)
    settings = {"models.width": width, "models.convolution": taps}
    given = {key: value for key, value in settings.items() if value is not None}
    says = name if width is None else f"{name}, width {width}"
    return Runs(says, "multi_query_recall", model, given, choose=choose)


def widths(records: Records) -> list[int]:
    """From narrow to wide."""
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
        shown = NAMES.get((self.model, self.taps)) or label(self.model)
        return f"{shown}, {self.steps:,} steps" if self.steps else shown


def kind(record: RunRecord) -> Kind:
    """The curve that a run belongs to."""
    taps = setting(record, "models.convolution") or 0
    steps = 0 if cell(record) else runs.steps(record)
    return Kind(record.model, taps if (record.model, taps) in NAMES else 0, steps)


def panels(records: Records) -> Picture:
    """One panel: accuracy at the most pairs against bytes, a line through the widths; hollow where
    no table ranks what was measured."""
    pairs = most(records)
    guess = [Remark("guess", y=1 / pairs)] if pairs else []
    x = Axis("bytes that a sequence keeps", scale="log")
    y = Axis("accuracy", limits=(-0.03, 1.05))
    title = f"{pairs} pairs, one layer, widths {', '.join(map(str, widths(records)))}"
    every = sorted(set(map(kind, records)))
    curves = [trace for one in every for trace in _curve(records, one, f"accuracy/{pairs}")]
    traces = sorted(curves, key=lambda trace: trace.legend == NOT_RANKED)  # last in the legend
    panel = Panel(title, x, y, traces, guess)
    silent = ", ".join(_silent(records))
    note = f"not in the picture, since state_bytes does not say: {silent}" if silent else ""
    return Picture(TITLE, [Row([panel], height=4.5)], note=note, legend="below", columns=3)


def _silent(records: Records) -> list[str]:
    """What does not say how much it keeps."""
    every = sorted(set(map(kind, records)))
    kept = {one: any(map(runs.state_of, _by_width(records, one).values())) for one in every}
    return [one.name for one in every if not kept[one]]


def _by_width(records: Records, of_kind: Kind) -> dict[int, list[RunRecord]]:
    own = [r for r in records if kind(r) == of_kind]
    sizes = sorted(set(map(runs.width, own)))
    return {size: [r for r in own if runs.width(r) == size] for size in sizes}


def _curve(records: Records, of_kind: Kind, name: str) -> list[Trace]:
    groups = _by_width(records, of_kind).values()
    by_state = {bytes_: own for own in groups if (bytes_ := runs.state_of(own))}
    lacking = {bytes_: own for bytes_, own in by_state.items() if _lacks(own)}
    # A variant, or more steps, beside the model as it is.
    line = "dotted" if of_kind.taps else "dashed" if of_kind.steps else ""
    look: dict[str, Any] = {"colour": of_kind.model, **({"line": line} if line else {})}
    traces = [over_seeds(of_kind.name, by_state, name, mark="both", **look)] if by_state else []
    if lacking:
        hollow: dict[str, Any] = {"mark": "dots", "hollow": True, "legend": NOT_RANKED}
        traces.append(over_seeds(f"{of_kind.name}, {NOT_RANKED}", lacking, name, **hollow, **look))
    return traces


def _lacks(own: Records) -> list[str]:
    """Why no table ranks the runs of one setting; nothing at smoke, which tunes nothing."""
    words = [mark.word for mark in marks(own) if mark.word != TUNED]
    return [] if own[0].preset == "smoke" else list(dict.fromkeys(words))


def table(records: Records) -> str:
    """Accuracy, bytes and marks of each model at each width."""
    sizes, name = widths(records), f"accuracy/{most(records)}"
    lines = [
        "| model | " + " | ".join(f"width {size}" for size in sizes) + " |",
        "|---|" + "---|" * len(sizes),
    ]
    for one in sorted(set(map(kind, records))):
        groups = _by_width(records, one)
        cells = [_cell(groups[size], name) if size in groups else "" for size in sizes]
        lines.append(f"| {one.name} | {' | '.join(cells)} |")
    if silent := _silent(records):
        lines += ["", f"Not in the picture, since `state_bytes` does not say: {', '.join(silent)}."]
    return "\n".join(lines)


def _cell(own: Records, name: str) -> str:
    found, kept = summary(own, name), runs.state_of(own)
    says = [f"{kept:,} bytes" if kept else "bytes unknown", *_lacks(own)]
    return tables.cell(found) if found.mean is None else f"{found.mean:.3f} ({', '.join(says)})"


def _accuracy(records: Records, found: Runs) -> Number:
    return Number(
        "accuracy",
        f"accuracy/{most(found.of(records))}",
        items=lambda record: int(setting(record, "tasks.test_size")),
    )


def keeps_every_pair(model: str, taps: int | None = None) -> Rule:
    """Nearly all right at the most pairs, at every width; of a width that was trained for longer as
    well, those runs speak."""

    def rules(records: Records) -> list[Rule]:
        usual = [of(model, size, taps) for size in widths(records)]
        long = [of(model, size, taps, longer) for size in widths(records)]
        known = [b if b.of(records) else a for a, b in zip(usual, long, strict=True)]
        return [within(_accuracy(records, one).of(one), low=ALL_RIGHT) for one in known]

    return each(rules, f"accuracy of {ALL_RIGHT:g} or more at the most pairs, at every width")


def _narrowest(records: Records) -> list[Runs]:
    size = min(widths(records), default=0)
    steps = longer if records and records[0].preset in runs.NARROW_STEPS else cell
    return [of(model, size, taps, steps) for model, taps in (RULE, SUM)]


def _rule_above_sum(records: Records) -> list[Rule]:
    rule, total = _narrowest(records)
    a, b = (_accuracy(records, one).of(one) for one in (rule, total))
    return [above(a, b, MORE)]


def _behind(records: Records) -> list[Rule]:
    size = max(widths(records), default=0)
    ahead = of(RULE[0], size, RULE[1])
    number = _accuracy(records, ahead)
    rules = []
    for model in PATIENT:
        long = of(model, size, choose=patient)
        one = long if long.of(records) else of(model, size)
        rules.append(
            provided(_recalls(records, one), above(number.of(ahead), number.of(one), LESS))
        )
    return rules


def _recalls(records: Records, found: Runs) -> Rule:
    """It has learned to recall: the fewest pairs, surely better than by a guess."""
    fewest = min((n for r in found.of(records) for n in r.config["tasks"]["pairs"]), default=1)
    number = _accuracy(records, found)
    few = replace(number, name=f"accuracy at {fewest} pairs", read=f"accuracy/{fewest}")
    return within(few.of(found), low=1 / fewest + BETTER_THAN_A_GUESS)


def _by_channel_above_by_head(records: Records) -> list[Rule]:
    """Judged where the decay of each head has begun to recall: two that guess recall alike."""
    size = min(widths(records), default=0)
    channel, head = (of(model, size) for model in runs.GATED)
    number = _accuracy(records, head)
    begun = within(number.of(head), low=1 / max(most(records), 1))
    return [provided(begun, above(number.of(channel), number.of(head), MORE))]


def _convolved_above_alone(records: Records) -> list[Rule]:
    a, b = (_accuracy(records, one).of(one) for one in _with_and_without(records))
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
REPRODUCTION = Reproduction(
    TITLE,
    f"{ZOOLOGY}; {DELTA}; {MECHANISMS}; {KIMI}",
    plan,
    select,
    CLAIMS,
    panels,
    variant,
    varied=("tasks.pairs", "models.width", "models.convolution"),
    table=table,
)
