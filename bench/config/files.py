"""The files of a configuration: ``config.yaml``, and one of each group, with what it takes over.

``tasks`` and ``models`` are groups because the folders of that name hold one YAML file beside each
task and each model: dropping a file in is the whole registration. A file may begin with
``defaults: [OTHER, _self_]``: then it has what OTHER of its group says, and its own keys over that.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from yaml import YAMLError

from bench.config.groups import check_class, folder_of, own_file
from bench.config.yaml_files import fault_of_yaml, read_yaml
from core.errors import UserError
from core.files import ROOT

SELF = "_self_"
MAIN = "config.yaml"
# Older checkouts, whose results are compared with today's, have it in other folders.
FOLDERS_OF_MAIN = ("bench/config", "settings", "bench")


def group_file(group: str, name: str, root: Path = ROOT) -> dict[str, Any]:
    """The whole file of a task, model or preset, with what it takes over from another.

    Args:
        group: "tasks", "preset", "models" or a folder below models/.
        root: another checkout of this project, such as an older one.

    Raises:
        UserError: a file is damaged, or names no class.
    """
    return copied(shared_file(group, name, root))


def shared_file(group: str, name: str, root: Path = ROOT) -> Mapping[str, Any]:
    """As :func:`group_file`, to be read only, since all who ask have the same object."""
    # Read once: a file that is edited meanwhile must not split one sweep in two.
    content = own_file(group, name) if root == ROOT else _file_of(group, name, root)
    if "defaults" in content:
        content = _with_defaults(group, name, root)
    check_class(group, name, content)
    return content


def main_file(root: Path = ROOT) -> dict[str, Any]:
    """``config.yaml``: the values of all that no other file sets."""
    return copied(_main_file(root))


def models_of(task: str) -> str:
    """The group that a task's models come from: "models", or what its YAML file ``takes``."""
    return str(shared_file("tasks", task).get("takes", "models"))


def copied(value: Any) -> Any:
    """Lists and mappings anew, whatever they hold, as nobody may change what others read; a tuple
    as a list."""
    if isinstance(value, dict):
        return {key: copied(inner) for key, inner in value.items()}
    return [copied(inner) for inner in value] if isinstance(value, list | tuple) else value


@lru_cache(maxsize=8)
def _main_file(root: Path) -> dict[str, Any]:
    folder = next(f for f in FOLDERS_OF_MAIN if (root / f / MAIN).is_file())
    return _read(root / folder / MAIN)


@lru_cache(maxsize=256)
def _file_of(group: str, name: str, root: Path) -> dict[str, Any]:
    return _read(root / folder_of(group).relative_to(ROOT) / f"{name}.yaml")


@lru_cache(maxsize=64)
def _with_defaults(group: str, name: str, root: Path) -> dict[str, Any]:
    content = own_file(group, name) if root == ROOT else _file_of(group, name, root)
    below, *rest = content["defaults"]
    if rest != [SELF]:
        raise UserError(
            f"{group}/{name}.yaml has defaults={content['defaults']}, and should have one file "
            f"that it takes over from, and itself: defaults: [OTHER, {SELF}]"
        )
    without = {key: value for key, value in content.items() if key != "defaults"}
    merged: dict[str, Any] = _merged(shared_file(group, below, root), without)
    return merged


def _merged(below: Any, above: Any) -> Any:
    """Mappings key by key; of anything else the one above."""
    if not isinstance(below, Mapping) or not isinstance(above, Mapping):
        return above
    shared = {key: _merged(below[key], above[key]) for key in below.keys() & above.keys()}
    return {**below, **above, **shared}


def _read(path: Path) -> dict[str, Any]:
    try:
        content = read_yaml(path)
    except (YAMLError, UnicodeDecodeError, OSError) as error:
        raise UserError(fault_of_yaml(error, str(path))) from None
    assert isinstance(content, dict)
    return {str(key): value for key, value in content.items()}
