"""Where a page of the site lies, and how one leads to another.

Example: the table of RegBench at preset laptop is ``tasks/regbench.html#laptop-…``.
"""

from __future__ import annotations

import posixpath

from leaderboards.tables.summaries import YOURS
from leaderboards.views.links import Address, Link, slug

OVERVIEW, CLAIMS, RECORDS = "index.html", "claims/index.html", "records/index.html"


def table_anchor(preset: str, variant: str, metric: str = "") -> str:
    """The place of a table on the page of its task; ``metric`` where it is not the headline."""
    return slug(preset, variant, metric)


def task_page(task: str) -> str:
    """The page of a task."""
    return f"tasks/{slug(task)}.html"


def model_page(model: str) -> str:
    """The page of a model."""
    return f"models/{slug(model)}.html"


def claim_page(claim: str) -> str:
    """The page of a claim, by its name in an address."""
    return f"claims/{slug(claim)}.html"


def record_page(run_id: str, origin: str = "") -> str:
    """The page of a record; one's own may have the name of a committed one."""
    return f"records/{slug(run_id)}{'.yours' if origin == YOURS else ''}.html"


def badge(kind: str, name: str) -> str:
    """The badge of one of the ``tasks`` or ``models``, without an ending."""
    return f"badges/{kind}/{slug(name)}"


def place_of(target: Link) -> str:
    """The file and anchor of a link, from the root of the site."""
    query = dict(target.query)
    if target.page == "task":
        page = task_page(query["task"])
        where = query.get("preset", ""), query.get("configuration", ""), query.get("metric", "")
        return f"{page}#{table_anchor(*where)}" if where[0] else page
    if target.page == "model":
        return model_page(query["model"])
    if target.page == "record":
        return record_page(query["record"], query.get("origin", ""))
    if "claim" in query:
        return claim_page(query["claim"])
    if target.page == "claims":
        return f"{CLAIMS}#{slug(query['verdict'])}" if "verdict" in query else CLAIMS
    if target.page == "overview":
        return OVERVIEW
    raise ValueError(f"the site has no page '{target.page}': link to one in the app alone")


def relative(page: str, place: str) -> str:
    """A place of the site as a page of it writes it."""
    file, sign, anchor = place.partition("#")
    return f"{posixpath.relpath(file, posixpath.dirname(page) or '.')}{sign}{anchor}"


def from_page(page: str) -> Address:
    """How a page writes links."""
    return lambda target: relative(page, place_of(target))
