"""The lines of a board. This module imports neither torch nor pandas, so that the app starts
quickly."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from reproduce.claims.fairness import TUNED


@dataclass(frozen=True)
class Row:
    """One line of a table: one metric of one model setting over its seeds, or a published number.

    A replication is a setting of the committed board over the runs of this machine: it stands
    beside the other and is not ranked a second time. Nor are unverified seeds: those that were sent
    for a setting of the board and that nobody has run again.

    ``group`` is the hash of what has to be equal for a common ranking; ``variant`` says in words
    which of the task's configurations it is.
    """

    task: str
    preset: str
    variant: str
    group: str
    model: str
    label: str
    setting: str
    kind: str  # measured | reference | replication | unverified | published (…)
    source: str
    metric: str
    direction: str | None  # maximise | minimise; None: not known, hence no rank
    unit: str
    headline: bool
    mean: float | None
    low: float | None = None
    high: float | None = None
    reading_error: float | None = None  # of a digitised number
    note: str = ""  # what a reader of the number must know, beside its marks
    seeds: int | None = None
    outcome: str = "ok"
    cause: str | None = None
    rank_best: int | None = None
    rank_worst: int | None = None
    parameters: int | None = None
    position_parameters: int | None = None
    state_bytes: int | None = None
    state_length: int | None = None
    training_flops: float | None = None
    training_tokens: int | None = None
    training_steps: int | None = None
    trials: int | None = None
    wall_seconds: float | None = None
    peak_memory_bytes: int | None = None
    device: str | None = None
    run_ids: tuple[str, ...] = ()
    items: int | None = None  # of the test, where the interval is over these too
    mark: str = ""  # the gravest of its marks (claims.fairness); "" where nothing was trained
    marks: tuple[str, ...] = ()  # all of them, each with its reason
    share_of_items: float | None = None  # of the variance of the mean that is from these
    data_seeds: int | None = None
    # committed | submitted | yours, or of each how many ("2 committed, 1 submitted")
    origin: str = ""
    made_from: str = ""  # hash of the records behind it, and of its place; "" of what is published
    checked: str = ""  # how far, in words (status.LEVELS); "" of what is published
    verified: bool = True  # whether it may be ranked beside the project's own

    @property
    def fair(self) -> bool:
        """Whether it may be ranked: it is tuned and converged, or needs no training."""
        return self.mark in ("", TUNED)


@dataclass(frozen=True)
class ModelCurve:
    """A curve of one model setting: mean over seeds with its pointwise interval, or published."""

    task: str
    preset: str
    variant: str
    group: str
    model: str
    label: str
    setting: str
    kind: str
    source: str
    metric: str  # name of the curve, or of the metric that is drawn against the size
    direction: str | None
    abscissa: str  # position | training step | the name of a training size
    by_size: bool
    note: str
    seeds: int | None
    x: tuple[float, ...]
    y: tuple[float, ...]
    y_low: tuple[float | None, ...]
    y_high: tuple[float | None, ...]
    origin: str = ""  # as of a row
    made_from: str = ""


@dataclass(frozen=True)
class ClaimLine:
    """The verdict on one published statement, or that its preset does not ask for one."""

    figure: str
    title: str
    preset: str
    name: str
    source: str
    sentence: str
    tolerance: str
    verdict: str
    evidence: str
    seeds: int | None
    seeds_needed: int | None
    asked_at: str  # of what a preset does not ask: the preset that does,
    cost: str  # and what asking there would take
    run_ids: tuple[str, ...]
    p: float | None = None  # smallest share of error at which it is decided; 0: no chance enters
    stays: bool | None = None  # among all of its preset; None: no chance enters, or undecided
    effect: str = ""
    set: str | None = None  # when the claim was last set
    after_runs: bool = False  # after the first of its runs had begun,
    confirmed: bool | None = None  # and whether the later runs alone decide it alike,
    asked_again: bool = False  # and whether they do or have as many seeds as the earlier ones
    origin: str = "committed"  # or yours, in place of a committed verdict
    committed: str = ""  # which that is; "" where there is none


@dataclass(frozen=True)
class RecordLine:
    """A record without its bulk (curves, arrays, values per sequence), as JSON."""

    run_id: str
    task: str
    preset: str
    model: str
    label: str
    role: str
    seed: int
    outcome: str
    content: str
    origin: str = "committed"  # or submitted, or yours
    sha256: str = ""  # of the whole record
    checked: str = ""  # how far, in words


@dataclass(frozen=True)
class Replication:
    """A run that was made once more, elsewhere or later, beside the one that is on the board.

    Both have one identity and one seed, so equal machines give equal numbers; another processor
    adds in another order. What seeds explain of a run of one's own is the interval in which one
    more seed of the setting would lie, by the spread of the board's seeds. Of one that
    ``leaderboards.verify`` made it is what that went by (``standing.spread``), so that levels and
    numbers say the same.
    """

    task: str
    preset: str
    variant: str
    group: str
    model: str
    label: str
    setting: str
    metric: str  # the headline
    direction: str
    seed: int
    data_seed: int
    run_id: str  # on the board,
    other_run_id: str  # and of the replication: another one where equal code has another name
    origin: str  # of the replication: yours | verified, which is by leaderboards.verify
    machine: str  # processor and system, as the records tell them
    other_machine: str
    outcome: str
    other_outcome: str
    value: float | None
    other_value: float | None
    same_numbers: bool  # all metrics of every split (verified: of test), and how it ended
    same_weights: bool | None  # None where nothing was trained, or nobody has kept it
    low: float | None  # what seeds explain; None where they tell nothing of it
    high: float | None
    outside: bool | None  # whether the replication's value is none of these
    by: str = ""  # who made it, as far as they say

    @property
    def difference(self) -> float | None:
        """The replication's value minus that of the board."""
        has_both = self.value is not None and self.other_value is not None
        return self.other_value - self.value if has_both else None  # type: ignore[operator]


@dataclass(frozen=True)
class Board:
    """Everything that the app shows, in a fixed order: by task."""

    rows: tuple[Row, ...]
    lines: tuple[ModelCurve, ...]
    claims: tuple[ClaimLine, ...]
    records: tuple[RecordLine, ...]
    replications: tuple[Replication, ...] = ()


def measured_rows(rows: Iterable[Row]) -> list[Row]:
    """Those that were trained or measured here: no reference, and nothing published."""
    return [row for row in rows if row.kind == "measured"]


def leading_rows(rows: Iterable[Row]) -> list[Row]:
    """Those that may be best, by their range of ranks."""
    return [row for row in rows if row.rank_best == 1]


def runs_of(rows: Iterable[Row]) -> set[str]:
    """The run ids behind rows."""
    runs: set[str] = set()
    for row in rows:
        runs.update(row.run_ids)
    return runs


def verdict_counts(claims: Iterable[ClaimLine]) -> Counter[str]:
    """How many claims have which verdict."""
    return Counter(claim.verdict for claim in claims)
