"""What a record tells of the machine and the person that made it: records are published.

What has a known form is told, and everything else is left out, whatever it is: a command keeps the
values of settings, a cause keeps numbers and words of published code.
"""

from __future__ import annotations

import linecache
import platform
import re
import sysconfig
import traceback
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import yaml

from core.files import ROOT

# Settings of the commands that make records, and the groups of which every key is one.
SETTINGS = {"tasks", "models", "preset", "seed", "device", "tracking", "committed", "n_trials"}
SETTINGS |= {"extend", "seeds", "data_seeds", "workers", "stack", "executor", "sampler"}
SETTINGS |= {"choose_over", "strict"}
GROUPS = ("tasks.", "models.", "training.", "sweep.", "ray.")
ADDRESSES = ("sweep.storage", "sweep.ray.address", "ray.address")  # among them
KEPT_HERE = ("store", "output", "storage", "prepared", "tasks.prepared", *ADDRESSES)
JOURNAL = ("storage=journal", "sweep.storage=journal")  # the one storage that is no place
PATH, ADDRESS = "PATH", "ADDRESS"  # in place of what is not told
NAMING_FILES = ("models", "models._target_")  # of a class, whose folder is not told
# Where a cause says that a traceback lies: a place in any store, whoever made it.
DETAILS = re.compile(r"details in work/(\w[\w.-]*)/traceback\.txt of the store")
_FOLDER = re.compile(r"[^,\[\]\"'+]*/(?=[^/,]+\.py:)")
_KEY = re.compile(r"\w[\w.]*")
_VALUE = re.compile(r"[\w.,:+\-\[\]{}'\" ]*")
_SIZE = re.compile(r"tried to allocate [\d.]+ ([KMGT]iB|bytes)", re.IGNORECASE)
_NUMBER = re.compile(r"\d+(x\d+)*|\d*e\d*")
_ADDRESS = re.compile(r"\S*(://|\S@\S|\d\.\d+\.\d+\.\d)\S*")
_PATH = re.compile(r"\S*([\\~]|(?<!\d)/|/(?!\d))\S*")


def public_command(argv: Sequence[str]) -> list[str]:
    """A command line, its program first: of the project's own with names and settings, of any
    other program with settings alone. Where things are kept is left out, so that others can give
    the same command; where data lie they have to say."""
    program = _module(Path(argv[0]).resolve())
    told_words = [public_word(word) for word in argv[1:] if program or "=" in word]
    places = [f"{key}={place}" for key in KEPT_HERE for place in (PATH, ADDRESS)]
    return ["python", *(program or ["SCRIPT"]), *(w for w in told_words if w and w not in places)]


def public_word(word: str) -> str:
    """A name, or ``key=value`` with PATH or ADDRESS where the value is not one of a setting; ""
    for what is neither.

    Example: ``store=/home/me/runs`` becomes ``store=PATH``, and ``seed=1`` stays.
    """
    key, equals, value = word.partition("=")
    if key in NAMING_FILES:
        value = _FOLDER.sub("", value)
        word = f"{key}={value}"
    if not _KEY.fullmatch(key):
        return ""
    if not equals or word in JOURNAL or (_is_setting(key) and _VALUE.fullmatch(value)):
        return word
    return f"{key}={ADDRESS if _ADDRESS.search(value) else PATH}"


def _is_setting(key: str) -> bool:
    settings, places = _settings_of_tasks()
    if key in SETTINGS:
        return True
    if key in ADDRESSES or key.removeprefix("tasks.") in places:
        return False
    return key in settings or key.startswith(GROUPS)


@cache
def _settings_of_tasks() -> tuple[set[str], set[str]]:
    """The settings of all tasks, and those of them that name a place on this machine."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    settings: set[str] = set()
    places: set[str] = set()
    for path in (ROOT / "tasks").glob("*.yaml"):
        content = yaml.load(path.read_text(), loader)
        settings.update(content)
        places.update(content.get("locations", ()))
    return settings, places


def _module(program: Path) -> list[str]:
    """``-m MODULE`` for a command of the project, in its worker processes too: these know the file
    of the command but run another module. Nothing for another program."""
    if program.suffix == ".py" and program.is_relative_to(ROOT):
        names = program.relative_to(ROOT).with_suffix("").parts
        if all(name.isidentifier() for name in names):  # no file of an environment that lies here
            return ["-m", ".".join(names).removesuffix(".__main__")]
    return []


def without_places(sentence: str) -> str:
    """A sentence of the project's own, with PATH and ADDRESS for the places in it."""
    return _PATH.sub("PATH", _ADDRESS.sub("ADDRESS", sentence))


def public_message(error: BaseException) -> str:
    """The first line of what an error says, with its numbers and with the words that stand in the
    published code that it came through; "…" is for others, which may be values of anything. Of
    memory that was not there it is the size. An error that was raised from another one says that
    too, since the first may be no more than "validation error for …"."""
    cause = error
    while cause.__cause__ is not None:
        cause = cause.__cause__
    if cause is error:
        return _public_line(error)
    return f"{_public_line(error)}, from {type(cause).__name__}: {_public_line(cause)}".lstrip(", ")


def _public_line(error: BaseException) -> str:
    """The first line of one error alone, without what it was raised from."""
    if size := _SIZE.search(str(error)):
        return size[0]
    published = [str(ROOT), *sysconfig.get_paths().values()]
    words = {"PATH", "ADDRESS"}
    for name in {frame.filename for frame in traceback.extract_tb(error.__traceback__)}:
        if any(Path(name).is_relative_to(place) for place in published):
            words.update(re.findall(r"\w+", "".join(linecache.getlines(name))))
    safe_words = []
    for word in without_places("".join(str(error).strip().splitlines()[:1])).split():
        parts = re.findall(r"\w+", word)
        is_published = all(part in words or _NUMBER.fullmatch(part) for part in parts)
        safe_words.append(word if is_published else "…")
    return re.sub(r"…( …)+", "…", " ".join(safe_words))


def public_system() -> str:
    """The operating system and the kind of processor: no version of a kernel, no name of a host."""
    return f"{platform.system()} {platform.machine()}"
