"""``python -m tests.public_packages``: examine public packages and write docs/public_packages.md.

Each package is installed, pinned and without its dependencies, into a folder of its own, and each
part of its examination runs in a process of its own with a time limit. What is done is not made
again: the same command goes on.
"""

import importlib.metadata
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from core.errors import OK, RUN_FAILED, UserError, command
from core.files import ROOT
from core.words import wants_help
from tests.public_packages.agreement import agreement
from tests.public_packages.contender import Contender
from tests.public_packages.contenders import CONTENDERS
from tests.public_packages.page import facts_of, write_page

WALL_SECONDS = 6  # for each second of `limit`: other work may share the processor
HELP = """\
usage: python -m tests.public_packages [key=value ...]

  packages=all     or [a,b]: names of packages, or parts of the names of their rows
  parts=[behaviour,trainings]
  limit=900        seconds of a processor that a part of one package may take, so that what is
                   reached does not depend on what else runs
  store=runs/public_packages
                   where packages are installed and what is done is kept; delete a JSON file there
                   to have its part made again
  output=docs      where public_packages.md and public_packages.json are written
  compared_with=FILE
                   a public_packages.json of another machine: say which answers differ and which
                   scores lie outside its intervals, and end with 1 if there are any"""
DEFAULTS = {
    "packages": "all",
    "parts": "[behaviour,trainings]",
    "limit": "900",
    "store": str(ROOT / "runs" / "public_packages"),
    "output": str(ROOT / "docs"),
    "compared_with": "",
}


def main(words: list[str]) -> int:
    """Install, examine, and write the page of all that is done."""
    if wants_help(words):
        print(HELP)
        return OK
    options = dict(DEFAULTS)
    for word in words:
        key, equals, value = word.partition("=")
        if not equals or key not in options:
            raise UserError(f"{word} is none of {', '.join(f'{k}=' for k in options)}")
        options[key] = value
    if not options["limit"].isdigit() or options["limit"] == "0":
        raise UserError(f"limit={options['limit']} is not a number of seconds of at least 1")
    store = Path(options["store"]).absolute()
    store.mkdir(parents=True, exist_ok=True)
    parts = as_list(options["parts"])
    for part in parts:
        if part not in ("behaviour", "trainings"):
            raise UserError(f"parts={part} is neither behaviour nor trainings")
    if (there := options["compared_with"]) and not Path(there).is_file():
        raise UserError(f"compared_with={there} is no file: name a public_packages.json")
    chosen = choose(options["packages"])
    failed = []
    for part in parts:  # the cheaper part of all first
        for number, contender in enumerate(chosen, 1):
            print(f"{part} {number}/{len(chosen)}: {contender.label}", flush=True)
            if not examine(contender, part, store, int(options["limit"])):
                failed.append(contender.label)
    rows = read_rows(store)
    differs = False
    if there := options["compared_with"]:  # before a file of that name is written anew
        compared = agreement(facts_of(rows), Path(there))
        print("\n".join(compared.sentences()))
        differs = bool(compared.other_answers or compared.outside)
    write_page(rows, Path(options["output"]))
    if failed:
        print(f"not complete: {', '.join(sorted(set(failed)))}", file=sys.stderr)
    return RUN_FAILED if failed or differs else OK


def as_list(text: str) -> list[str]:
    """``[a,b]`` or ``a``."""
    return [word.strip() for word in text.strip("[]").split(",") if word.strip()]


def choose(text: str) -> list[Contender]:
    """The contenders that ``packages=`` names.

    Raises:
        UserError: a name fits none.
    """
    if text == "all":
        return sorted(CONTENDERS, key=lambda c: not c.regbench)  # the slow ones last
    chosen = []
    for word in as_list(text):
        fitting = [c for c in CONTENDERS if word.lower() in c.label.lower()]
        if not fitting:
            labels = ", ".join(c.label for c in CONTENDERS)
            raise UserError(f"packages={word} fits none of: {labels}")
        chosen += [c for c in fitting if c not in chosen]
    return chosen


def examine(contender: Contender, part: str, store: Path, limit: int) -> bool:
    """One part of one contender, unless it is done; whether it is done now."""
    file = store / f"{contender.slug}.{part}.json"
    if file.exists() and json.loads(file.read_text()).get("done"):
        return True
    folder = install(contender, store)
    log = store / f"{contender.slug}.{part}.log"
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(folder), str(ROOT)]),
        "OMP_NUM_THREADS": "1",
        "MKL_NUM_THREADS": "1",
        "HF_HUB_OFFLINE": "1",
        "TOKENIZERS_PARALLELISM": "false",
    }
    module = "tests.public_packages.examine"
    words = [sys.executable, "-m", module, contender.slug, part, str(file), str(limit)]
    with log.open("w") as output:
        try:
            done = subprocess.run(
                words,
                cwd=store,
                env=environment,
                stdout=output,
                stderr=subprocess.STDOUT,
                timeout=WALL_SECONDS * limit,
                check=False,
            )
        except subprocess.TimeoutExpired:
            seconds = WALL_SECONDS * limit
            print(f"  stopped after {seconds} s; {file.name} has what was done", flush=True)
            return False
    if done.returncode == -signal.SIGXCPU:
        print(f"  stopped after {limit} CPU-seconds; {file.name} has what was done", flush=True)
    elif done.returncode:
        print(f"  ended with {done.returncode}; see {log}", flush=True)
    return done.returncode == 0


def install(contender: Contender, store: Path) -> Path:
    """The folder with the pinned package and what it needs beside this environment.

    Raises:
        UserError: pip cannot install them.
    """
    folder = store / "packages" / contender.package
    stamp = folder / "installed.txt"
    wanted = "\n".join(contender.requirements)
    if stamp.exists() and stamp.read_text() == wanted:
        return folder
    missing = [r for r in contender.requirements if not is_installed(r)]
    folder.mkdir(parents=True, exist_ok=True)
    if missing:
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        words = [*pip, "--no-deps", "--upgrade", "--target", str(folder), *missing]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        if done.returncode:
            lines = done.stderr.strip().splitlines() or ["no reason given"]
            raise UserError(f"{contender.label}: pip cannot install it ({lines[-1]})", RUN_FAILED)
    stamp.write_text(wanted)
    return folder


def is_installed(requirement: str) -> bool:
    """Whether this environment has exactly that version, as it has of torch and transformers."""
    name, _, version = requirement.partition("==")
    try:
        return importlib.metadata.version(name).partition("+")[0] == version
    except importlib.metadata.PackageNotFoundError:
        return False


def read_rows(store: Path) -> list[tuple[Contender, dict[str, Any]]]:
    """Contenders of which something is done, with their results."""
    rows = []
    for contender in CONTENDERS:
        values: dict[str, Any] = {}
        for part in ("behaviour", "trainings"):
            file = store / f"{contender.slug}.{part}.json"
            if file.exists():
                values[part] = json.loads(file.read_text())
        if values:
            rows.append((contender, values))
    return rows


if __name__ == "__main__":
    command(main)
