"""Making things again: every step that computes is a command of the engine in a process of its own.

What is verified is data to all of them. A model of another package is imported in such a process
alone, and only if whoever verifies has named the package.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from bench.records.command import places_of, words_of
from bench.records.counted import Counted
from bench.records.equivalence import todays_name
from bench.records.schema import RunRecord, read_record
from bench.records.store import Store
from ground.errors import OK, RUN_FAILED, UserError
from ground.files import ROOT
from ground.reading import Kind
from ground.words import word
from settings.source_files import class_name, place_of_source, source_name, use_trusted


class Done(NamedTuple):
    """How a command ended."""

    code: int
    output: str
    error: str

    def sentence(self) -> str:
        """What it said went wrong, in its last line."""
        last = (self.error.strip().splitlines() or ["it said nothing"])[-1]
        return last.removeprefix("error: ")[:1000]


Command = Callable[[str, Sequence[str]], Done]


def in_its_own_process(module: str, words: Sequence[str]) -> Done:
    """``python -m MODULE WORDS``. The working directory is not on its path: a file that lies beside
    what is verified stands in for no library."""
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    done = subprocess.run(
        [sys.executable, "-P", "-m", module, *words],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    return Done(done.returncode, done.stdout, done.stderr)


@dataclass(frozen=True)
class Bench:
    """The engine, as this command asks it.

    Attributes:
        store: where runs that are made again are kept, so that they go on after an interruption.
        package: the package, or the file, of somebody else whose models may be imported.
        places: "tasks.key" -> where data lie on this machine.
    """

    store: Path
    package: str | None = None
    places: Mapping[str, str] = field(default_factory=dict)
    command: Command = in_its_own_process

    def _words(self, record: RunRecord) -> list[str]:
        """The places that the task of a record asks for: a sample has records of many tasks."""
        own = places_of(record)
        return [word(key, place) for key, place in self.places.items() if key in own]

    @property
    def _trust(self) -> list[str]:
        return [word("trust", self.package)] if self.package else []

    def lacks(self, record: RunRecord) -> str:
        """Which words are missing to tell where the data of a record lie, in a sentence."""
        keys = [key for key in places_of(record) if key not in self.places]
        words = " ".join(f"{key}=PLACE" for key in keys)
        return f"it was made of data that are not in this repository: give {words}" if keys else ""

    def count(self, files: Sequence[Path]) -> list[Counted]:
        """What is counted again of some records.

        Raises:
            UserError: the engine could not be asked.
        """
        words = [word("run", str(path)) for path in files]
        places = [word(key, place) for key, place in self.places.items()]
        done = self.command("bench.recount", [*words, *self._trust, *places])
        lines = [line for line in done.output.splitlines() if line.startswith("{")]
        if len(lines) != len(files):
            raise UserError(f"nothing could be counted again: {done.sentence()}", RUN_FAILED)
        return [Counted.model_validate_json(line) for line in lines]

    def score(self, record: RunRecord, file: Path) -> dict[str, dict[str, float]] | str:
        """Split -> metric -> value by a run's saved weights, or why there is none."""
        with tempfile.TemporaryDirectory() as folder:
            output = Path(folder) / "metrics.json"
            words = [word("run", str(file)), word("output", str(output))]
            done = self.command("bench.evaluate", [*words, *self._trust, *self._words(record)])
            return METRICS.read_json(output) if output.exists() else done.sentence()

    def run(self, record: RunRecord) -> RunRecord | str:
        """The record of the same run made here, by its command, or why there is none."""
        target = str(record.config.get("models", {}).get("_target_"))
        try:
            words = words_of(record)
            source, trusted = source_name(target), use_trusted(self.package)
            if record.role != "baseline" and source not in ("models", trusted):
                what = "file" if source.endswith(".py") else "package"
                raise UserError(
                    f"its model is of the {what} {source!a}, which is imported only if you name it "
                    "by package="
                )
            if source == trusted and (place := place_of_source(target)):
                named = word("models._target_", target)
                by_place = word("models._target_", f"{place}:{class_name(target)}")
                words = [by_place if one == named else one for one in words]
            if lacks := self.lacks(record):
                raise UserError(lacks)
            here = [word("store", str(self.store)), "tracking=none", "committed=false"]
            done = self.command("bench.train", [*words, *here, *self._words(record)])
            return _made(record, Store(self.store), done)
        except UserError as error:
            return str(error)


TOLD = "record: "  # where bench.train says that it has put a record
METRICS = Kind[dict[str, dict[str, float]]](
    "measurement", dict[str, dict[str, float]], how="verify again"
)


def _made(record: RunRecord, store: Store, done: Done) -> RunRecord:
    """What a command made, or served from its own store, of the run of a record. Its last words are
    where the records lie. Other code or libraries give the run another name, so settings tell
    which one it is; the store may hold the same settings by code that is gone.

    Raises:
        UserError: the command came to none.
    """
    said = [line.removeprefix(TOLD) for line in done.output.splitlines() if line.startswith(TOLD)]
    for path in (store.records / Path(place).name for place in said):
        made = read_record(path)
        if _settings(made) == _settings(record):
            return made
    raise UserError(done.sentence() if done.code != OK else "its command made no such run")


def _settings(record: RunRecord) -> tuple[object, ...]:
    """Which run it is, by settings as they are called today: a store may hold it by older code that
    is proven equal, and had fewer of them."""
    today = todays_name(record.config, record.provenance)
    config = today.config if today else record.config
    return record.task, record.model, record.preset, record.seed, config
