"""What ``auto`` stands for where a task's preset leaves a choice to the machine, such as its text.

``card.automatic`` of a task's YAML file has the values of a key in order, and what each one needs:
``given``, another setting with a value; ``address``, a page in reach, unless files in the folder of
prepared data match all patterns of ``kept``. Beside it, ``with`` brings further settings.

``card.samples`` has names of known text for a key. A name stands for ``settings``, so that a run is
the same run as on a copy of that text, and for a ``place``, a setting and where its text is; a path
that is given there says where to look for it. ``beside`` is such a place of another setting, for
configurations that have the values of ``where``.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from core.places import absolute

AUTO = "auto"
Needs = Mapping[str, Any]
Reach = Callable[[str], bool]  # whether a page answers


def settle(task: dict[str, Any]) -> None:
    """Put what it stands for in the place of each name of a sample, and the first value that needs
    no network in that of each ``auto``.

    Args:
        task: the task's YAML file, with the values of a configuration.
    """
    for key, samples in task.get("card", {}).get("samples", {}).items():
        if task.get(key) in samples:
            _use_sample(task, samples[task[key]])
    for key, values in _open(task):
        usable = (
            v for v, needs in values.items() if "address" not in needs and _is_given(needs, task)
        )
        task[key] = next(usable)


def names_a_sample(task: Mapping[str, Any], key: str, value: object) -> bool:
    """Whether a value of a task's setting is the name of known text.

    Args:
        task: the task's YAML file.
    """
    return value in task.get("card", {}).get("samples", {}).get(key, {})


def text_to_fetch(task: Mapping[str, Any]) -> list[str]:
    """Addresses of the known text that a task would read over the network; of a choice that is left
    to the machine that of the first known text. None where a setting says where text lies.

    Args:
        task: the task's YAML file, with the values of a configuration.
    """
    addresses = []
    for key, samples in task.get("card", {}).get("samples", {}).items():
        named = samples.get(task.get(key))
        if named is None and key in dict(_open(task)):
            named = next(iter(samples.values()))
        if named is not None and task[named["place"][0]] is None:
            addresses.append(named["place"][1])
    return addresses


def _use_sample(task: dict[str, Any], sample: Mapping[str, Any]) -> None:
    place, address = sample["place"]
    if task[place] is not None:
        address += str(absolute(str(task[place])))
    task |= {**sample["settings"], place: address}
    beside = sample.get("beside")
    if beside and all(task.get(key) == value for key, value in beside["where"].items()):
        place, address = beside["place"]
        task[place] = address


def settings_for(
    task: Mapping[str, Any], overrides: Mapping[str, Any], reach: Reach
) -> dict[str, Any]:
    """The settings, by dotted keys, that settle each ``auto`` by what is read over the network, if
    that comes first; where it is out of reach, one line on stderr names what is taken instead.

    Args:
        overrides: dotted keys of the command line, whose values win.
    """
    settled: dict[str, Any] = {}
    for key, values in _open(task):
        missed = ""
        for value, needs in values.items():
            address = needs.get("address")
            if not _is_given(needs, task):
                continue
            if address is None:
                if missed:
                    print(f"note: {missed} is out of reach: tasks.{key}={value}", file=sys.stderr)
                break
            if _has_prepared_files(needs, task) or reach(address):
                settled[f"tasks.{key}"] = value
                for name, other in needs.get("with", {}).items():
                    if name in task and f"tasks.{name}" not in overrides:
                        settled[f"tasks.{name}"] = other
                break
            missed = address
    return settled


def _open(task: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Needs]]]:
    for key, values in task.get("card", {}).get("automatic", {}).items():
        if task.get(key) == AUTO:
            yield key, values


def _is_given(needs: Needs, task: Mapping[str, Any]) -> bool:
    return "given" not in needs or task.get(needs["given"]) is not None


def _has_prepared_files(needs: Needs, task: Mapping[str, Any]) -> bool:
    folder = absolute(str(task["prepared"]))
    return all(any(folder.glob(pattern)) for pattern in needs["kept"])
