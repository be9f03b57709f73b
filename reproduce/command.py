"""``python -m reproduce NAME``: what is missing is run, the figure drawn, its claims judged.

With ``records=FOLDER`` nothing is run and PyTorch is not imported: the figure and the verdicts are
pure functions of records.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.records.identity import one_of_each
from bench.records.numbers import data_seed
from bench.records.schema import RunRecord, read_records
from bench.records.store import COMMITTED, Store, record_path
from bench.search.plan import (
    MAKING,
    SHORT_NAMES,
    checked_device_like,
    guests_in,
    in_full,
    list_models,
    make_plan,
    some_model,
    warn_of_warmup,
)
from ground.errors import CLAIM_CONTRADICTED, OK, RUN_FAILED, UserError, nearest
from ground.files import ROOT
from ground.words import wants_help
from judging import frozen
from judging.controls import is_twin, without_twins
from judging.presets import refuse_mixtures
from judging.verdicts import CONTRADICTED
from reproduce.console import print_verdicts
from reproduce.reproduction import Plan, Reproduction, View
from reproduce.writing import judge_again, write
from settings.config import compose, parse
from settings.groups import choices, taking_part
from settings.network import with_text
from settings.seeded import compose_seeded

if TYPE_CHECKING:
    from settings.settings import Configuration

CHOSEN_BY_THE_FIGURE = ("tasks", "models", "seed", "sweep.models", "sweep.seeds")
# How runs are made, which changes no result: two such views would be one.
EXECUTION = (
    "device",
    "tracking",
    *MAKING,
    *(f"sweep.{name}" for name in MAKING),
    "training.checkpoint_every",
)

HELP = """\
usage: python -m reproduce                       what there is
       python -m reproduce NAME [key=value ...]  run what is missing, draw, judge the claims
       python -m reproduce claims [update=true]  when each claim was last set

  preset=NAME       smoke (default), laptop, gpu, paper
  models=+MODEL     MODEL, or your own package.Class, beside the models that the figure compares;
                    marked as not committed, and no claim is judged by it
  seeds=N           seeds of each model (default: as the preset says)
  strict=true       exit code 3 if a claim is contradicted
  records=FOLDER    run nothing: draw and judge the records of this preset below FOLDER
  workers=N         worker processes (default: one for each CPU core or GPU here; at smoke 0: the
                    runs are made in this process)
  executor=ray      the runs are made on a Ray cluster, as bench.sweep has it; storage= too
  committed=false   make every run here (default true: the project's own records are served, and
                    nothing is trained for them)
  store=FOLDER      where runs, figures and verdicts go (default runs)
  dry_run=true      count the runs and estimate the time, as if there were no record yet; nothing is
                    run or written; device_like=NAME: of a sweep's runs on that device
  any other word    is passed on to every run, such as training.steps=50 or device=cpu; settings of
                    the task also without "tasks.", such as corpus=local stories=PATH wiki=PATH

A claim is "reproduced", "contradicted" or has "not enough evidence"; a failed run is shown.
example: python -m reproduce figure5 preset=smoke"""


def main(words: Sequence[str], reproductions: Mapping[str, Reproduction]) -> int:
    """List the reproductions, or make one. Exit code 3: strict, and a claim is contradicted."""
    if wants_help(words):
        print(HELP)
        return OK
    if not words:
        print("python -m reproduce NAME [key=value ...]; --help says more\n")
        for name, known in sorted(reproductions.items(), key=lambda item: _natural(item[0])):
            print(f"  {name:10} {known.title}\n{'':13}{known.source}")
        return OK
    name, *rest = words
    if name == "claims":
        hashes = {n: [own.hashes for own in one.claims] for n, one in reproductions.items()}
        return frozen.main(rest, hashes, partial(judge_again, reproductions))
    if name not in reproductions:
        raise UserError(f"there is no reproduction '{name}': {nearest(name, reproductions)}")
    reproduction = reproductions[name]
    request = Request.read(rest, name, reproduction)
    with taking_part(request.guests):
        return _make(name, reproduction, request)


def _make(name: str, reproduction: Reproduction, request: Request) -> int:
    """The figure and the verdicts that were asked for; the exit code of ``main``."""
    if request.records is None:
        request = request.with_text(reproduction)
    if request.dry_run:
        request.foretell(reproduction)
        return OK
    given = request.records
    records = request.existing(reproduction, given) if given else request.obtain(reproduction)
    folder = Store(request.store).reproductions / name / request.view.folder
    results = write(name, reproduction, records, request.view, folder)
    shown = without_twins(records)
    print_verdicts(name, reproduction, results, shown, request.view, folder)
    trained = [record for record in shown if record.role != "baseline"]
    if trained and not any(record.outcome == "ok" for record in trained):
        return RUN_FAILED
    contradicted = any(result.finding.verdict == CONTRADICTED for result in results)
    return CLAIM_CONTRADICTED if request.strict and contradicted else OK


@dataclass(frozen=True)
class Request:
    """The words of the command line, read; ``passed_on`` are those for every run, ``guests`` the
    models beside those that the figure compares."""

    view: View
    passed_on: tuple[str, ...]
    store: Path
    seeds: int | None
    strict: bool
    records: Path | None
    dry_run: bool
    committed: bool
    guests: tuple[str, ...] = ()
    device_like: str | None = None

    @classmethod
    def read(cls, words: Sequence[str], name: str, reproduction: Reproduction) -> Request:
        own: dict[str, Any] = {"preset": "smoke", "store": "runs", "seeds": None, "strict": False}
        own |= {"records": None, "dry_run": False, "committed": True, "device_like": None}
        given: dict[str, str] = {}  # of a key that is given twice the last counts, as everywhere
        beside: dict[str, tuple[str, ...]] = {}  # the word -> its guests
        words = [list_models(word) for word in words]
        preset = next((w for w in reversed(words) if w.startswith("preset=")), "preset=smoke")
        task = task_keys(reproduction, preset)
        for word, override in zip(words, parse(words), strict=True):
            key, refusal = override.key_or_group, f"'{word}' cannot be chosen here"
            if key in task and key not in own:  # corpus=local is short for tasks.corpus=local
                key, word = f"tasks.{key}", f"tasks.{word}"
            if key == "models" and (found := guests_in(override.value())):
                beside = {word: tuple(found)}
                continue
            if key in CHOSEN_BY_THE_FIGURE:
                about = "a figure names its own tasks, models and seeds; seeds=N sets how many"
                raise UserError(f"{refusal}: {about}, and models=+MODEL adds a model")
            if key in reproduction.varied:
                about = f"{name} sets {key} itself; leave it out, or use it with bench.train"
                raise UserError(f"{refusal}: {about}")
            if key in own:
                own[key] = override.value()
            else:
                given[f"sweep.{key}" if key in SHORT_NAMES else key] = word
        passed_on = tuple(sorted(given.values()))
        places = {f"tasks.{key}" for key, is_place in task.items() if is_place}
        own_words = (w for key, w in given.items() if key not in {*EXECUTION, *places})
        changes = tuple(sorted([*own_words, *beside]))
        if own["preset"] not in choices("preset"):
            hint = nearest(str(own["preset"]), choices("preset"))
            raise UserError(f"there is no preset '{own['preset']}': {hint}")
        seeds = own["seeds"]
        if seeds is not None and type(seeds) is not int:  # true is none
            raise UserError(f"seeds={seeds} is not a number of seeds, such as seeds=5")
        if seeds is not None and seeds < 1:
            raise UserError(f"seeds={seeds}: at least one seed is needed")
        for key in ("strict", "dry_run", "committed"):
            if not isinstance(own[key], bool):
                raise UserError(f"{key}={own[key]} is neither true nor false")
        if own["records"] is not None and (passed_on or seeds or own["dry_run"]):
            about = [*passed_on, f"seeds={seeds}" if seeds else "dry_run=true"][0]
            raise UserError(f"'{about}' is about runs, but records=… runs nothing: leave one out")
        return cls(
            view=View(own["preset"], changes),
            passed_on=passed_on,
            store=Path(str(own["store"])),
            seeds=seeds,
            strict=own["strict"],
            records=None if own["records"] is None else Path(str(own["records"])),
            dry_run=own["dry_run"],
            committed=own["committed"],
            guests=next(iter(beside.values()), ()),
            device_like=checked_device_like(own["device_like"], own["dry_run"]),
        )

    def with_text(self, reproduction: Reproduction) -> Request:
        """With the words for text of the network, where a preset takes what can be had."""
        plan = self.plan(reproduction)
        first = next(iter((*plan.sweeps, *plan.runs, *plan.baselines)))
        more = tuple(with_text(first)[len(first) :])
        view = View(self.view.preset, tuple(sorted((*self.view.overrides, *more))))
        return replace(self, view=view, passed_on=(*self.passed_on, *more))

    def existing(self, reproduction: Reproduction, folder: Path) -> list[RunRecord]:
        """The records of this preset below a folder."""
        if not folder.is_dir():
            raise UserError(f"there is no folder {folder}: give one with run records")
        read = read_records([folder])
        here = [r for r in read if r.preset == self.view.preset and r.role != "trial"]
        found = reproduction.select(one_of_each(without_twins(here)))
        plan = reproduction.plan(self.view.preset, None)
        trained = any(record.role != "baseline" for record in found)
        if not found or ((plan.runs or plan.sweeps) and not trained):
            raise UserError(
                f"no run below {folder} belongs to this figure at preset "
                f"{self.view.preset}: leave records=… out to make the runs"
            )
        refuse_two_settings(found, reproduction.variant)
        for record in found:
            reproduction.check(record.config)
        return [*found, *reproduction.control.twins(found, one_of_each(filter(is_twin, here)))]

    def obtain(self, reproduction: Reproduction) -> list[RunRecord]:
        """Every run that the plan names, and the twins of its controls: served, or made."""
        from bench.runs.obtain import obtain_baselines
        from bench.search.batch import make_all
        from bench.sweep import run_sweep
        from ground.progress import progress

        plan = self.plan(reproduction)
        configurations = self._single_runs(reproduction, plan)
        records: dict[str, RunRecord] = {}
        controls = reproduction.control.configurations(plan.runs, plan.sweeps)
        twins: list[RunRecord] = []
        with progress() as show:
            for words in plan.sweeps:
                records |= {r.run_id: r for r in run_sweep(words, show)}
            if configurations or controls:
                made = make_all(configurations, show, controls)
                records |= {r.run_id: r for r in without_twins(made)}
                twins = one_of_each(filter(is_twin, made))
            for words in plan.baselines:
                found = obtain_baselines(compose(words), show)
                records |= {record.run_id: record for record in found}
        runs = self._with_committed(reproduction, one_of_each(records.values()))
        mine = reproduction.control.twins(runs, twins)
        return list({record.run_id: record for record in [*runs, *mine]}.values())

    def _with_committed(
        self, reproduction: Reproduction, records: Sequence[RunRecord]
    ) -> list[RunRecord]:
        """The records that belong to the figure; where nothing had to be run for them, with all
        that the project has committed for it, which may be more than the plan asks for."""
        chosen = reproduction.select(records)
        served = [r for r in chosen if record_path(r, self.store).is_relative_to(COMMITTED)]
        if not served:
            return chosen
        if len(served) == len(chosen) and self.seeds is None and not self.view.overrides:
            chosen = self.existing(reproduction, COMMITTED)
            served = without_twins(chosen)
        print(
            f"{len(served)} of {len(without_twins(chosen))} records are the project's own, below "
            f"{COMMITTED.relative_to(ROOT)}: nothing was run for them (committed=false makes them "
            "here)\n"
        )
        return chosen

    def foretell(self, reproduction: Reproduction) -> None:
        """Say what the plan would run; nothing is written."""
        from bench.search.estimate import foretell, print_run_count

        plan = self.plan(reproduction)
        configurations = self._single_runs(reproduction, plan)
        foretell(
            {
                " ".join(w for w in words if w.startswith("tasks")): replace(
                    make_plan(words), device_like=self.device_like
                )
                for words in plan.sweeps
            }
        )
        if configurations:
            print_run_count(configurations)
        if controls := reproduction.control.configurations(plan.runs, plan.sweeps):
            print(f"and {len(controls)} controls: the same before their training")

    def plan(self, reproduction: Reproduction) -> Plan:
        """The reproduction's plan with complete command lines."""
        plan = reproduction.plan(self.view.preset, self.seeds)
        preset, store = f"preset={self.view.preset}", f"store={self.store}"
        self._check_keys(plan, preset)
        served = f"committed={str(self.committed).lower()}"
        single = [in_full(word, MAKING) for word in self.passed_on]
        seeds = [] if self.seeds is None else [f"sweep.seeds={self.seeds}"]
        made = Plan(
            runs=tuple((*words, preset, store, served, *single) for words in plan.runs),
            baselines=tuple((*words, preset, store, served, *single) for words in plan.baselines),
            sweeps=tuple(
                (*words, *seeds, preset, store, served, *self.passed_on) for words in plan.sweeps
            ),
        )
        if self.guests:
            self._check_guests(made)
        return made

    def _check_guests(self, plan: Plan) -> None:
        """Refuse guests of a figure without contenders, or without the sizes that it varies."""
        seats = [
            (w, e)
            for words in plan.sweeps
            for e in make_plan(words).entries
            if e.guest
            for w in words
        ]
        if not seats:
            raise UserError(
                f"models=+{self.guests[0]} cannot take part: this figure compares models that it "
                "names itself; python -m bench.sweep tasks=TASK models=+MODEL compares any"
            )
        for given, entry in seats:
            if given.startswith("models.") and given not in entry.words:
                name = entry.configuration.label
                raise UserError(
                    f"{name} cannot take part: this figure compares models by "
                    f"{given.partition('=')[0]}, which its constructor does not take"
                )

    def _check_keys(self, plan: Plan, preset: str) -> None:
        """Refuse a word that no run of the plan understands, by the nearest that one does."""
        known = {"device", "tracking", "dry_run", "preset", "records", "seeds", "store", "strict"}
        known |= {"committed", *MAKING, *(f"sweep.{name}" for name in MAKING)}
        known |= set(SHORT_NAMES if plan.sweeps else ())
        sections = ("tasks", "models", "training", *(("sweep",) if plan.sweeps else ()))
        for configuration in _examples(plan, preset):
            for section in sections:
                known |= {f"{section}.{key}" for key in dict(getattr(configuration, section))}
        for word in self.passed_on:
            key = parse([word])[0].key_or_group
            if key not in known and ".".join(key.split(".")[:2]) not in known:
                raise UserError(f"there is no setting '{key}' here: {_closest(key, known)}")

    def _single_runs(self, reproduction: Reproduction, plan: Plan) -> list[Configuration]:
        configurations = [compose(words) for words in plan.runs]
        for configuration in configurations:
            reproduction.check(configuration.resolved())
        swept = [entry.configuration for w in plan.sweeps for entry in make_plan(w).entries]
        warn_of_warmup([*configurations, *swept])
        return configurations


def task_keys(reproduction: Reproduction, preset: str) -> dict[str, bool]:
    """Settings of the task that the first run of the plan has, and whether they name a place on
    this machine; none where the preset is unknown, which is refused later."""
    if preset.removeprefix("preset=") not in choices("preset"):
        return {}
    plan = reproduction.plan(preset.removeprefix("preset="), None)
    first_words = (plan.sweeps or plan.runs or plan.baselines)[0]
    of_task = [word for word in first_words if word.startswith(("tasks=", "tasks."))]
    first = compose_seeded([f"models={some_model(of_task)}", *of_task, preset])
    return {key: key in first.locations for key in first.tasks if key != "_target_"}


def _examples(plan: Plan, preset: str) -> list[Configuration]:
    """The configurations of the first words of each sort: sweeps, runs, predictors."""
    sweeps = [make_plan([*words, preset]) for words in plan.sweeps[:1]]
    single = [compose([*words, preset]) for words in plan.runs[:1] + plan.baselines[:1]]
    return [*(entry.configuration for sweep in sweeps for entry in sweep.entries), *single]


def _closest(key: str, known: Collection[str]) -> str:
    """A clause with one key, however far: all of them would be a screen full."""
    same = sorted(name for name in known if name.rpartition(".")[2] == key)
    usable = sorted(set(known) - set(CHOSEN_BY_THE_FIGURE))
    return f"the nearest is '{(same or get_close_matches(key, usable, n=1, cutoff=0))[0]}'"


def refuse_two_settings(
    records: Sequence[RunRecord], variant: Callable[[RunRecord], Hashable]
) -> None:
    """A folder may hold runs of other settings or other code: which of them the figure would show
    is not for chance to decide. Data of another seed are not another setting."""

    def identity(record: RunRecord) -> dict[Hashable, object]:
        without = record.role == "baseline"
        name = record.label if without else record.model
        return {(without, name, variant(record), data_seed(record)): record.identity}

    def sentence(key: Any, *_: object) -> str:
        reason = "were made with different settings or code, and this figure shows one setting of"
        return f"{reason} {key[1]}: keep the records of one of them"

    refuse_mixtures(records, identity, sentence)


def _natural(name: str) -> list[tuple[str, int]]:
    return [(word, int(number or 0)) for word, number in re.findall(r"(\D+)(\d*)", name)]
