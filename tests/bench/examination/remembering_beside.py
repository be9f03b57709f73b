"""A module that a guest imports, and keeps things in."""

from typing import Any

KEPT: dict[Any, Any] = {}
ALLOWED = False  # which one process sets
