"""Making things again: every step that computes is a command of the engine in a process of its own.

What is verified is data to all of them. A model of another package is imported in such a process
alone, and only if whoever verifies has named the package.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import ValidationError

from bench.config.source_files import class_name, place_of_source, source_name, use_trusted
from bench.records.command import places_of, words_of
from bench.records.counted import Counted
from bench.records.equivalence import current_name
from bench.records.schema import RunRecord, read_record
from bench.records.store import Store
from core.children import Ended, run_to_end
from core.errors import OK, RUN_FAILED, USAGE, UserError
from core.escaping import terminal
from core.files import ROOT, open_regular
from core.processes import describe_end, module_command
from core.reading import Kind
from core.words import word

# A process that makes something again may run a model that never ends.
HOURS = 24.0
TIMES_THE_RECORD = 10  # a run may take so many times what its record says, on a slower machine

Command = Callable[[str, Sequence[str], float], Ended]  # module, arguments, limit in seconds


def in_its_own_process(module: str, arguments: Sequence[str], limit: float) -> Ended:
    """``python -m MODULE ARGUMENTS``, which answers by a file that one of them names. The working
    directory is not on its path: a file that lies beside what is verified stands in for no library.
    """
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    ended = run_to_end(module_command(module, arguments), limit, environment={"PYTHONPATH": path})
    if ended.outlived_by:
        print(
            f"note: {module} left processes behind, which were ended: "
            f"{terminal(', '.join(ended.outlived_by))}",
            file=sys.stderr,
        )
    return ended


@dataclass(frozen=True)
class Bench:
    """The engine, as this command asks it.

    Attributes:
        store: where runs that are made again are kept, so that they go on after an interruption.
        package: the package, or the file, of somebody else whose models and tasks may be imported;
            several with commas between them.
        places: "tasks.key" -> where data lie on this machine.
        hours: the longest time of one process; None is HOURS, or TIMES_THE_RECORD times as long as
            the record says that its run took.
    """

    store: Path
    package: str | None = None
    places: Mapping[str, str] = field(default_factory=dict)
    command: Command = in_its_own_process
    hours: float | None = None

    def _limit(self, recorded_seconds: float = 0.0) -> float:
        if self.hours is not None:
            return self.hours * 3600
        return max(HOURS * 3600, TIMES_THE_RECORD * recorded_seconds)

    def _words(self, record: RunRecord) -> list[str]:
        """The places that the task of a record asks for: a sample has records of many tasks."""
        places_asked = places_of(record)
        return [word(key, place) for key, place in self.places.items() if key in places_asked]

    @property
    def _trust(self) -> list[str]:
        if not self.package:
            return []
        names = self.package.split(",")
        return [word("trust", names if len(names) > 1 else self.package)]

    def lacks(self, record: RunRecord) -> str:
        """Which words are missing to tell where the data of a record lie, in a sentence."""
        keys = [key for key in places_of(record) if key not in self.places]
        words = " ".join(f"{key}=PLACE" for key in keys)
        return f"it was made of data that are not in this repository: give {words}" if keys else ""

    def count(self, files: Sequence[Path]) -> list[Counted]:
        """What is counted again of some records. One at which the process ends, by what its model
        does, is counted by nobody; the others are.

        Raises:
            UserError: the engine could not be asked.
        """
        counted: list[Counted] = []
        places = [word(key, place) for key, place in self.places.items()]
        while len(counted) < len(files):
            left = files[len(counted) :]
            with tempfile.TemporaryDirectory() as folder:
                output = Path(folder) / "counted.jsonl"
                words = [*(word("run", str(path)) for path in left), word("output", str(output))]
                ended = self.command(
                    "bench.recount", [*words, *self._trust, *places], self._limit()
                )
                answers = _answers_in(output)[: len(left)]
            counted += answers
            if len(answers) == len(left):
                break
            if not answers and ended.code == USAGE:
                raise UserError(
                    f"nothing could be counted again: {no_answer_since(ended)}", RUN_FAILED
                )
            refused = f"its counting came to no end: {no_answer_since(ended)}"
            counted.append(Counted(run_id=left[len(answers)].stem, refused=refused))
        return counted

    def score(self, record: RunRecord, file: Path) -> dict[str, dict[str, float]] | str:
        """Split -> metric -> value by a run's saved weights, or why there is none."""
        with tempfile.TemporaryDirectory() as folder:
            output = Path(folder) / "metrics.json"
            words = [word("run", str(file)), word("output", str(output))]
            words += [*self._trust, *self._words(record)]
            ended = self.command("bench.evaluate", words, self._limit())
            return METRICS.read_json(output) if output.exists() else no_answer_since(ended)

    def run(self, record: RunRecord) -> RunRecord | str:
        """The record of the same run made here, by its command, or why there is none."""
        try:
            words = words_of(record)
            self._refuse_strangers(record)
            for section in ("tasks", "models"):
                target = str(record.config.get(section, {}).get("_target_"))
                if place := place_of_source(target):
                    by_place = f"{place}:{class_name(target)}"
                    for key in (section, f"{section}._target_"):
                        named, placed = word(key, target), word(key, by_place)
                        words = [placed if each == named else each for each in words]
            if lacks := self.lacks(record):
                raise UserError(lacks)
            words_of_store = [word("store", str(self.store)), "tracking=none", "committed=false"]
            with tempfile.TemporaryDirectory() as folder:
                output = Path(folder) / "records.json"
                words = [*words, *words_of_store, *self._words(record), word("output", str(output))]
                limit = self._limit(record.cost.wall_seconds)
                ended = self.command("bench.train", words, limit)
                names = PLACES.read_json(output) if output.exists() else []
            return _repeated_record(record, Store(self.store), names, ended)
        except UserError as error:
            return str(error)

    def _refuse_strangers(self, record: RunRecord) -> None:
        """Refuse to import what only the record names.

        Raises:
            UserError: its model or its task is of a package that nobody has named.
        """
        trusted = (use_trusted(self.package) or "").split(",")
        for section in ("tasks", "models"):
            target = str(record.config.get(section, {}).get("_target_", section))
            source = section if target == section else source_name(target)
            if source != section and source not in trusted:
                kind = "file" if source.endswith(".py") else "package"
                raise UserError(
                    f"its {section[:-1]} is of the {kind} {source!a}, which is imported only if "
                    "you name it by package= (several: package=[./net.py,./task.py])"
                )


METRICS = Kind[dict[str, dict[str, float]]](
    "measurement", dict[str, dict[str, float]], how="verify again"
)
PLACES = Kind[list[str]]("list of records", list[str], how="verify again")
LARGEST_ANSWER = 2**28  # bytes


def no_answer_since(ended: Ended) -> str:
    """Why a process has no answer, in a sentence."""
    if ended.over_limit:
        return "it was ended when its time was over; hours=N gives it more, and it goes on"
    if ended.code < 0:
        return f"its process was {describe_end(ended.code)}"
    return ended.sentence[:1000]


def _answers_in(path: Path) -> list[Counted]:
    """The answers in a file; of a line that was cut by the end of its process none."""
    if not path.exists():
        return []
    with open_regular(path) as file:
        lines = file.read(LARGEST_ANSWER).splitlines()
    answers = []
    for line in lines:
        try:
            answers.append(Counted.model_validate_json(line))
        except ValidationError:
            break
    return answers


def _repeated_record(
    record: RunRecord, store: Store, places: Sequence[str], ended: Ended
) -> RunRecord:
    """What a command made, or served from its own store, of the run of a record.

    Other code or libraries give the run another name, so settings tell which one it is; the store
    may hold the same settings by code that is gone.

    Args:
        places: where the records lie that the command made.

    Raises:
        UserError: the command came to none.
    """
    for path in (store.records / Path(place).name for place in places):
        record_made = read_record(path)
        if _settings(record_made) == _settings(record):
            return record_made
    raise UserError(no_answer_since(ended) if ended.code != OK else "its command made no such run")


def _settings(record: RunRecord) -> tuple[object, ...]:
    """Which run it is, by settings as they are called today: a store may hold it by older code that
    is proven equal, and had fewer of them."""
    today = current_name(record.config, record.provenance)
    config = today.config if today else record.config
    return record.task, record.model, record.preset, record.seed, config
