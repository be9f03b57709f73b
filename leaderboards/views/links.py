"""Where a page leads to: the page's name and what it is asked for, whoever shows it.

Example: ``link("task", task="regbench", preset="laptop")`` is ``task?task=regbench&preset=laptop``
in the app.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from typing import NamedTuple
from urllib.parse import urlencode

from leaderboards.contents import ClaimLine, Row
from leaderboards.tables.summaries import YOURS

_UNSAFE = re.compile(r"[^a-z0-9_]+")
LONGEST = 100  # characters of a name of a file


class Link(NamedTuple):
    """A page and the state that it opens in."""

    page: str
    query: tuple[tuple[str, str], ...] = ()


Address = Callable[[Link], str]  # a link as an address, of the app or of a file


def link(page: str, **query: str | None) -> Link:
    """The link to a page; what is None or empty is left to the page."""
    return Link(page, tuple((key, value) for key, value in query.items() if value))


def in_app(target: Link) -> str:
    """The address in the app, relative to any of its pages."""
    query = f"?{urlencode(target.query)}" if target.query else ""
    return f"{target.page}{query}" if target.page else f"./{query}"


def to_table(row: Row, **more: str | None) -> Link:
    """The table that a row stands in."""
    metric = None if row.headline else row.metric
    place = {"task": row.task, "preset": row.preset, "configuration": row.variant}
    return link("task", **place, metric=metric, **more)


def to_record(run_id: str, origin: str = "") -> Link:
    """A record. One's own may have the name of a committed one, which it repeats."""
    return link("record", record=run_id, origin=origin if origin == YOURS else None)


def to_model(model: str) -> Link:
    """What is known of a model."""
    return link("model", model=model)


def to_claim(claim: ClaimLine) -> Link:
    """A claim with all that its verdict rests on."""
    return link("claims", claim=claim_id(claim))


def claim_id(claim: ClaimLine) -> str:
    """The name of a claim in an address.

    Example: ``figure9/laptop/more accurate``.
    """
    return "/".join((claim.figure, claim.preset, claim.name))


def slug(*parts: str) -> str:
    """A name of a file or an anchor, whatever the texts hold; other texts have another name."""
    text = "/".join(parts)
    plain = _UNSAFE.sub("-", text.lower()).strip("-")[:LONGEST]
    if plain == text and plain not in ("", "index"):
        return plain
    return f"{plain}-{hashlib.sha256(text.encode(errors='replace')).hexdigest()[:8]}".lstrip("-")
