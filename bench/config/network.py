"""Whether what a task downloads is in reach, known before a client retries for half a minute."""

from __future__ import annotations

import os
import threading
import urllib.request
from collections.abc import Mapping
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlsplit

from bench.config.automatic import settings_for
from bench.config.files import shared_file
from bench.config.groups import PRESETS, choices
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
    downloads = shared_file("tasks", configuration.task).get("card", {}).get("downloads", {})
    addresses = {choices.get(configuration.tasks.get(key)) for key, choices in downloads.items()}
    for address in addresses - {None}:
        if not os.environ.get(OFFLINE) and not _answers(os.environ.get("HF_ENDPOINT", address)):
            os.environ[OFFLINE] = "1"


def with_available_text(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a command with those for text of the network, where the preset of its task
    takes such text if it can be had; a command asks for it once, before it runs anything."""
    task = task_settings(settings)
    return {**settings, **({} if task is None else settings_for(task, settings, _has))}


def task_settings(settings: Mapping[str, Any]) -> dict[str, Any] | None:
    """The YAML file of the task that is named, with the values of its preset and of the settings;
    None of a task of another package."""
    if (task := settings.get("tasks")) not in choices("tasks"):
        return None
    file = shared_file("tasks", str(task))
    of_preset = file.get("presets", {}).get(settings.get("preset", PRESETS[0]), {})
    of_task = {k.removeprefix("tasks."): v for k, v in settings.items() if k.startswith("tasks.")}
    return {**file, **of_preset.get("tasks", {}), **of_task}


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
