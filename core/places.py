"""Places that a person names: a store, a folder of output, a file of text.

A command resolves each of them once, at its start, to an absolute path. So nothing goes elsewhere
when a model's package changes the working directory, and ``~`` is the home folder also where the
shell leaves it as it is, as in ``store=~/runs``.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from core.errors import UserError
from core.files import working_directory

_SERVER = re.compile(r"[\w.-]+:\d+(/.*)?")  # HOST:PORT, without the http:// of an address


def absolute(place: str | os.PathLike[str]) -> Path:
    """The absolute path of a place; links are not followed.

    Raises:
        UserError: ``~NAME`` names no user of this machine, or there is no home folder.
    """
    text = os.fspath(place)
    path = os.path.expanduser(text)  # noqa: PTH111 - a Path would make ~ of ./~
    if path == text and text.startswith("~"):
        raise UserError(
            f"{text} begins with {text.partition('/')[0]}, and this machine knows no such home "
            f"folder: write the path in full, or ./{text} for a folder of that name"
        )
    return working_directory() / path


def is_path(value: object) -> bool:
    """Whether a setting that says where something lies is a path, and no address of a server."""
    return isinstance(value, str) and "://" not in value and not _SERVER.fullmatch(value)


def absolute_if_path(value: object) -> object:
    """A setting that says where something lies; a path is made absolute."""
    return str(absolute(value)) if isinstance(value, str) and is_path(value) else value


def readable(path: Path) -> str:
    """A path as a person reads it: relative to where the command was given, if it lies below."""
    start = working_directory()
    return str(path.relative_to(start)) if path.is_relative_to(start) else str(path)


def is_server(address: str) -> bool:
    """Whether an address is that of a PostgreSQL server, which several machines reach."""
    return address.startswith("postgresql")
