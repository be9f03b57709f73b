"""How a run ends, whatever kind it is, and what it measured, as its record."""

from __future__ import annotations

import math
import time
import traceback
from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import torch

from bench.config.settings import Configuration
from bench.examination.contract.faults import fault_of_numbers, fault_of_result
from bench.records.code import is_own, modules_behind
from bench.records.identity import Identity
from bench.records.schema import Curve, Headline, Outcome, Role, RunRecord, Study
from bench.training.building import resolve_device
from bench.training.memory import peak_memory
from bench.training.mistakes import TASKS_OF_OURS
from bench.training.numerics import kept_settings, other_setting, set_numerics
from bench.training.seeding import kept_random_state
from bench.training.training import Stopped
from bench.training.unfit import UnfitModel
from core.errors import UserError, place_of
from core.files import ROOT, write_atomically
from core.privacy import public_message, without_places
from core.progress import Report, phase
from core.reading import LARGEST_NUMBER
from tasks.interface import Evaluation, Split, Task
from tasks.measurement import Diverged, Measurement, Refused


class Run(ABC):
    """One run on its way to a record.

    Args:
        work: the run's own folder, for whatever it keeps beside the record.
    """

    task: Task | Measurement  # each kind builds its own

    def __init__(self, identity: Identity, work: Path, report: Report) -> None:
        self.identity, self.work, self.report = identity, work, report
        self.configuration = identity.configuration
        self.device = resolve_device(self.configuration.device)
        self.description = f"{self.configuration.label} seed {self.configuration.seed}"

    def prepare(self) -> None:  # noqa: B027  # most have nothing to do before
        """All that comes before the first split is measured."""

    def phase(self, name: str) -> AbstractContextManager[None]:
        """A block that is reported under a name, as what the run is at."""
        return phase(self.report, f"{self.description}: {name}")

    @abstractmethod
    def measure(self, split: Split) -> Evaluation:
        """The whole protocol on one split."""

    def conclude(self) -> None:  # noqa: B027  # most have nothing to do after
        """A last look once the last split is measured.

        Raises:
            UnfitModel: nothing that was measured counts; says why.
        """

    @abstractmethod
    def spent(self, evaluations: Mapping[str, Evaluation], seconds: float) -> dict[str, Any]:
        """What the making took, as fields of the record, ``cost`` among them.

        Args:
            evaluations: those of the splits that came to an end.
            seconds: of the whole making.
        """

    def make(self, role: Role, study: Study | None) -> RunRecord:
        """Measure both splits, or validation alone for a trial.

        Raises:
            UserError: a user's mistake.
            KeyboardInterrupt: the run was stopped.
        """
        set_numerics(self.configuration.training.threads)
        evaluations: dict[str, Evaluation] = {}
        started = time.perf_counter()
        splits: list[Split] = ["validation"] if role == "trial" else ["validation", "test"]
        with (
            kept_settings() as changed,
            peak_memory(self.device) as memory,
            kept_random_state(self.device),
        ):
            outcome, cause = self._try(splits, evaluations)
        if outcome == "ok" and changed and not is_own(self.configuration.models["_target_"]):
            # What an examination has not met, such as a setting that the hundredth call changes.
            outcome, cause = "failed", other_setting(*next(iter(changed.items())))
        measured = measured_fields(self.task, evaluations, splits[-1])
        if outcome != "ok":  # on one split, maybe, and not on the other
            measured["headline"] = measured["headline"].model_copy(update={"value": None})
        spent = self.spent(evaluations, time.perf_counter() - started)
        trials = len(study.trials) if study else 0
        names = ("seed", "task", "model", "label", "preset")
        return RunRecord(
            run_id=self.identity.run_id(self.configuration.seed),
            identity=self.identity.identity,
            **{name: getattr(self.configuration, name) for name in names},
            role=role,
            outcome=outcome,
            cause=cause,
            config=self.configuration.resolved(),
            cost=spent.pop("cost").model_copy(
                update={"peak_memory_bytes": memory.peak, "tuning_trials": trials}
            ),
            curves={**spent.pop("curves", {}), **measured.pop("curves")},
            study=study,
            provenance=self.identity.provenance,
            **spent,
            **measured,
        )

    def _conclude(self, evaluations: dict[str, Evaluation]) -> None:
        try:
            self.conclude()
        except UnfitModel:
            evaluations.clear()
            raise

    def _try(
        self, splits: list[Split], evaluations: dict[str, Evaluation]
    ) -> tuple[Outcome, str | None]:
        """Fill ``evaluations``; how that ended, and why it did not end well."""
        try:
            self.prepare()
            for split in splits:
                measured = self.measure(split)
                target = self.configuration.tasks["_target_"]
                # A rehearsal has met what fails whatever the weights are.
                fault = fault_of_result("its protocol", measured, split)
                if not fault and not is_own(target):
                    fault = fault_of_numbers("its protocol", measured, split)
                if fault:
                    raise UnfitModel(f"tasks ({target}): {fault}")
                evaluations[split] = measured
            self._conclude(evaluations)
        except UserError:
            raise
        except Refused as error:
            raise UserError(str(error)) from None
        except Stopped:
            raise KeyboardInterrupt from None
        except Diverged as error:
            return "diverged", without_places(str(error))
        except UnfitModel as error:
            return "failed", without_places(str(error))
        except Exception as error:
            return _failure(error, self.work, self.configuration)
        for measured_split, measured in evaluations.items():
            # Other numbers may be there, but not the one that the measurement is ranked by.
            causes = measured.arrays.get("diverged")
            if causes and self.task.headline.name not in measured.metrics:
                return "diverged", str(causes[0])
            value = measured.metrics.get(self.task.headline.name, math.nan)
            if not is_own(self.configuration.tasks["_target_"]) and not math.isfinite(value):
                return "failed", (
                    f"the task measured no number {self.task.headline.name} on the "
                    f"{measured_split} split, as where no target counts"
                )
        return "ok", None


def _failure(error: Exception, work: Path, configuration: Configuration) -> tuple[Outcome, str]:
    """How a run ended that stopped with ``error``; the details go to a file in ``work``.

    Raises:
        OSError: the error, if it is one: a full disk is no property of the model.
    """
    no_memory = isinstance(error, torch.OutOfMemoryError | MemoryError)
    if no_memory or "can't allocate" in str(error):
        return "out_of_memory", public_message(error) or "out of memory"
    if isinstance(error, OSError):
        raise error
    write_atomically(work / "traceback.txt", traceback.format_exc().encode())
    where = f"work/{work.name}/traceback.txt of the store"
    owner = f"tasks ({configuration.tasks['_target_']}): " if _of_task(error, configuration) else ""
    return "failed", f"{owner}{type(error).__name__}: {public_message(error)} (details in {where})"


def _of_task(error: Exception, configuration: Configuration) -> bool:
    """Whether an error arose in the code of a task of somebody else, such as at a target that the
    thousandth batch has, and not in that of the model."""
    task, model = configuration.tasks["_target_"], configuration.models.get("_target_", "")
    if is_own(task):
        return False
    file, _, _ = place_of(error).rpartition(", line ")
    if file.startswith(TASKS_OF_OURS):
        return True
    others = set() if not model or is_own(model) else {*modules_behind(model).values()}
    return ROOT / file in {*modules_behind(task).values()} - others


def measured_fields(
    task: Task | Measurement, evaluations: Mapping[str, Evaluation], split: str
) -> dict[str, Any]:
    """Headline, metrics, per-sequence values, curves and arrays of a record; all but the metrics
    are those of ``split``. What is not finite, or beyond what a record may hold, is left out."""
    metrics = {}
    for name, measured in evaluations.items():
        numbers = measured.metrics.items()
        metrics[name] = {metric: value for metric, value in numbers if abs(value) <= LARGEST_NUMBER}
    last = evaluations.get(split)
    value = metrics.get(split, {}).get(task.headline.name)
    return {
        "headline": Headline(**vars(task.headline), value=value),
        "metrics": metrics,
        "per_sequence": last.per_sequence if last else {},
        "curves": {k: Curve(**v) for k, v in last.curves.items()} if last else {},
        "arrays": last.arrays if last else {},
    }
