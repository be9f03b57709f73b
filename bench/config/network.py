"""Whether what a task downloads is in reach, known before a client retries for half a minute."""

from __future__ import annotations

import os
import threading
import urllib.request
from collections.abc import Sequence
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlsplit

from bench.config.automatic import words_for
from bench.config.config import group_file, load_groups, parse
from bench.config.groups import choices
from bench.config.settings import Configuration

SECONDS_TO_ANSWER = 5.0
OFFLINE = "HF_HUB_OFFLINE"  # read by the hub's client when it is imported: then it asks once


def note_if_offline(configuration: Configuration) -> None:
    """Tell the client of the Hugging Face hub where the hub is out of reach.

    ``card.downloads`` of a task's YAML file names the choices that are downloaded. What was
    downloaded before is found either way.
    """
    if configuration.task not in choices("tasks"):  # a task of another package has no card
        return
    downloads = group_file("tasks", configuration.task).get("card", {}).get("downloads", {})
    addresses = {choices.get(configuration.tasks.get(key)) for key, choices in downloads.items()}
    for address in addresses - {None}:
        if not os.environ.get(OFFLINE) and not _answers(os.environ.get("HF_ENDPOINT", address)):
            os.environ[OFFLINE] = "1"


def with_text(words: Sequence[str]) -> list[str]:
    """The words of a command with those for text of the network, where the preset of its task takes
    such text if it can be had; a command asks for it once, before it runs anything."""
    task = settings_of_task(words)
    if task is None:
        return list(words)
    given = {override.key_or_group: override.value() for override in parse(words)}
    return [*words, *words_for(task, given, _has)]


def settings_of_task(words: Sequence[str]) -> dict[str, Any] | None:
    """The YAML file of the task that the words name, with the values of their preset and of the
    words; None of a task of another package."""
    given = {override.key_or_group: override.value() for override in parse(words)}
    task = given.get("tasks")
    if task not in choices("tasks"):
        return None
    tree = load_groups({"tasks": str(task)})
    settings: dict[str, Any] = tree["tasks"]
    preset = given.get("preset", tree["preset"]["name"])
    settings |= settings.get("presets", {}).get(preset, {}).get("tasks", {})
    return settings | {
        k.removeprefix("tasks."): v for k, v in given.items() if k.startswith("tasks.")
    }


def is_offline(configuration: Configuration) -> bool:
    """Whether what a configuration downloads is out of reach."""
    note_if_offline(configuration)
    return bool(os.environ.get(OFFLINE))


def _has(address: str) -> bool:
    """Whether the hub has a page; a user who works offline is not asked."""
    if os.environ.get(OFFLINE, "0") not in ("", "0"):
        return False
    hub, path = os.environ.get("HF_ENDPOINT"), urlsplit(address).path
    return _answers(f"{hub}{path}" if hub else address, whole=True)


def _answers(address: str, whole: bool = False) -> bool:
    """Whether a server answers anything at all, or ``whole``: gives the page. Asked in a thread,
    because looking up its name has no time limit of its own."""
    answered = threading.Event()

    def ask() -> None:
        request = urllib.request.Request(address, method="GET" if whole else "HEAD")
        try:
            urllib.request.urlopen(request, timeout=SECONDS_TO_ANSWER).close()
        except HTTPError:
            if whole:
                return
        except (OSError, ValueError, HTTPException):
            return
        answered.set()

    asking = threading.Thread(target=ask, daemon=True)
    asking.start()
    asking.join(SECONDS_TO_ANSWER)
    return answered.is_set()
