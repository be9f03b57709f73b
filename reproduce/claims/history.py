"""What was changed about claims, their tests, seeds and runs: the entries of ``history.yaml``.

``frozen.yaml`` beside it knows by hashes *when* a claim was last set; here it says *why*, whether
numbers had been seen, and what came out. A claim whose words, numbers or test are younger than its
runs is named here; a test asks for it.
"""

from __future__ import annotations

import datetime
from functools import cache
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict

from core.reading import own_yaml

HISTORY = Path(__file__).with_name("history.yaml")


class Change(BaseModel):
    """One entry.

    Attributes:
        title: unique; ``closed=`` of a claim names it.
        seen: whether numbers of the claims had been seen when the change was decided.
        final: after it the claims get no more seeds here.
        claims: figure -> names of its claims.
        gone: figure -> names of claims that it does not ask any more.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    title: str
    date: datetime.date
    seen: Literal["no", "some", "yes"]
    final: bool = False
    claims: dict[str, list[str]]
    gone: dict[str, list[str]] = {}
    change: str
    outcome: str = ""

    def names_of(self, figure: str) -> list[str]:
        """The claims of a figure that it is about, those that are gone last."""
        return [*self.claims.get(figure, []), *self.gone.get(figure, [])]


@cache
def history() -> tuple[Change, ...]:
    """All entries, the oldest first."""
    return tuple(Change(**entry) for entry in own_yaml(HISTORY))


def changes_of(figure: str) -> list[Change]:
    """The entries about claims of a figure, the oldest first."""
    return [change for change in history() if change.names_of(figure)]
