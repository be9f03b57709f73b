"""HTML from the templates in ``templates/``. Jinja escapes every text of a board: others may have
written it."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from core.escaping import terminal
from leaderboards.render import plain
from leaderboards.views.links import Address, in_app

TEMPLATES = Path(__file__).resolve().parent / "templates"


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_calm,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["plain"] = plain
    return environment


def _calm(value: Any) -> Any:
    """A text without what turns its direction or has no place in a page; markup as it is."""
    return terminal(value) if type(value) is str else value


def markup(template: str, /, address: Address = in_app, **data: Any) -> str:
    """A template filled with data.

    Args:
        template: its name, without ``.html`` where it ends so.
        address: how its links are written, in the app or in a file.
    """
    file = template if "." in template else f"{template}.html"
    return _environment().get_template(file).render(href=address, **data)
