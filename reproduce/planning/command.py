"""``python -m reproduce evidence``: the plan is printed, or worked on for as long as is given."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.config.command_line import shown as setting_shown
from bench.config.groups import choices
from bench.search.plan import JOURNAL, MAKING, checked_device_like
from core.collector import collector_paused
from core.errors import OK, UserError, nearest
from core.files import write_atomically
from core.places import absolute, readable
from core.words import by_name
from reproduce.experiment import Experiment
from reproduce.planning.confirming import SurveyAlone
from reproduce.planning.console import print_plan
from reproduce.planning.experiments import experiments
from reproduce.planning.page import page_of
from reproduce.planning.survey import Survey, in_order
from reproduce.request import task_keys

LARGEST_HOURS = 24.0 * 366
SHARED = ("device", "tracking", *MAKING)  # settings that every figure knows


@dataclass(frozen=True)
class EvidenceRequest:
    """What a command line asks for; ``others`` are settings of the figures."""

    preset: str = "laptop"
    hours: float | None = None
    workers: int = 0
    figures: tuple[str, ...] = ()
    store: Path = Path("runs")
    dry_run: bool = False
    storage: str = JOURNAL
    others: Mapping[str, Any] = field(default_factory=dict)
    device_like: str | None = None
    page: Path | None = None
    confirm: bool = False

    @classmethod
    def of(
        cls, settings: Mapping[str, Any], reproductions: Mapping[str, Experiment]
    ) -> EvidenceRequest:
        """Check every setting.

        Raises:
            UserError: one that cannot be used.
        """
        of_command = {key: value for key, value in settings.items() if key in OWN}
        others = {key: value for key, value in settings.items() if key not in OWN}
        storage = str(others.get("storage", others.get("sweep.storage", cls.storage)))
        preset = of_command.get("preset", cls.preset)
        workers = of_command.get("workers", cls.workers)
        if preset not in choices("preset"):
            raise UserError(
                f"there is no preset '{preset}': {nearest(str(preset), choices('preset'))}"
            )
        if type(workers) is not int or workers < 0:
            raise UserError(f"workers={workers} is not a number of processes, such as workers=2")
        dry_run, confirm = (of_command.get(key, False) for key in ("dry_run", "confirm"))
        for key, value in (("dry_run", dry_run), ("confirm", confirm)):
            if not isinstance(value, bool):
                raise UserError(f"{key}={value} is neither true nor false")
        figures = _figures(of_command.get("figures", []), reproductions)
        if storage != cls.storage and "://" not in storage:
            raise UserError(
                f"storage={storage} is neither '{cls.storage}' nor an address of a database, such "
                "as postgresql://USER@HOST:5432/DATABASE"
            )
        store = absolute(str(of_command.get("store", cls.store)))
        hours = _hours(of_command.get("hours"))
        device_like = checked_device_like(of_command.get("device_like"), dry_run)
        page = of_command.get("page")
        if page is not None and (not dry_run or device_like is not None):
            raise UserError("page= is a page of a plan: say dry_run=true too, and no device_like=")
        if page is not None and confirm:
            raise UserError("page= is about open claims, and confirm=true about decided ones")
        return cls(
            preset=str(preset),
            hours=hours,
            workers=workers,
            figures=figures,
            store=store,
            dry_run=dry_run,
            storage=storage,
            others=others,
            device_like=device_like,
            page=None if page is None else absolute(str(page)),
            confirm=confirm,
        )

    def settings(self, reproductions: Mapping[str, Experiment]) -> dict[str, dict[str, Any]]:
        """For each figure the settings of ``python -m reproduce``.

        Raises:
            UserError: a setting that no figure knows.
        """
        base = {"preset": self.preset, "store": str(self.store), "workers": self.workers}
        shared = {*SHARED, *(f"sweep.{name}" for name in MAKING)}
        keys_by_figure = {}
        for name in self.figures:
            of_task = task_keys(reproductions[name], self.preset) if self.others else {}
            keys_by_figure[name] = {*shared, *of_task, *(f"tasks.{key}" for key in of_task)}
        for key, value in self.others.items():
            known = set().union(*keys_by_figure.values())
            if key not in known:
                raise UserError(
                    f"'{setting_shown(key, value)}' is known to none of these figures: "
                    + nearest(key, known.union(OWN))
                )
        settings_by_figure = {}
        for name, keys in keys_by_figure.items():
            others = {key: value for key, value in self.others.items() if key in keys}
            settings_by_figure[name] = {**base, **others}
        return settings_by_figure


OWN = (
    "preset",
    "hours",
    "workers",
    "figures",
    "store",
    "dry_run",
    "confirm",
    "device_like",
    "page",
)


def main(settings: Mapping[str, Any], reproductions: Mapping[str, Experiment]) -> int:
    """Exit code 0 when all is there or time is over, 1 if something could not be run."""
    request = EvidenceRequest.of(settings, reproductions)
    of = {name: reproductions[name] for name in request.figures}
    settings_by_figure = request.settings(reproductions)

    def look() -> Survey:
        if not request.dry_run:
            by_name("reproduce.planning.work:write_missing_records")(request.storage, request.store)
        survey = SurveyAlone if request.confirm else Survey
        return survey(of, settings_by_figure, request.preset, request.store, request.device_like)

    if not request.dry_run:
        work = by_name("reproduce.planning.work:work")
        return int(work(look(), look, request.workers, request.hours))
    with collector_paused():
        survey = look()
        steps = in_order(survey, survey.candidates)
        deciding = [] if request.confirm else experiments(survey)
        print_plan(survey, steps, deciding, request.workers, request.hours)
        if request.page is not None:
            text = page_of(deciding, request.preset, readable(request.page))
            write_atomically(request.page, text.encode())
    print(f"dry run, nothing was run{'' if request.page else ' or written'}")
    return OK


def _figures(value: object, reproductions: Mapping[str, Experiment]) -> tuple[str, ...]:
    names = [str(name) for name in value] if isinstance(value, list) else [str(value)]
    for name in names:
        if name not in reproductions:
            raise UserError(f"there is no reproduction '{name}': {nearest(name, reproductions)}")
    return tuple(dict.fromkeys(names)) or tuple(sorted(reproductions))


def _hours(value: object) -> float | None:
    if value is None:
        return None
    number = value if isinstance(value, int | float) and not isinstance(value, bool) else 0
    if not 0 < number <= LARGEST_HOURS:
        raise UserError(f"hours={value} is not a time above 0, such as hours=8 or hours=0.5")
    return float(number)
