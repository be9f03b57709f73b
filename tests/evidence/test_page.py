"""The page of open claims, of the committed verdicts and by itself."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from evidence.command import Asked
from evidence.cost import Cost
from evidence.page import page_of
from evidence.survey import Experiment
from ground.errors import UserError
from judging.verdicts import NOT_ASKED, UNDECIDED
from leaderboards.build import FOLDER
from tests.conftest import ROOT

PAGE = "docs/open_claims.md"


def test_the_page_lists_every_claim_that_is_open_and_what_it_costs() -> None:
    """Made again by the command that it names, after verdicts changed."""
    files = [json.loads(p.read_text()) for p in sorted((FOLDER / "verdicts").glob("*-laptop.json"))]
    claims = [(file["figure"], claim) for file in files for claim in file["claims"]]
    known = {(figure, one["name"], one["verdict"]) for figure, one in claims}
    rows = [line.strip("| ").split(" | ") for line in (ROOT / PAGE).read_text().splitlines()]
    listed = {(r[0], r[1], r[2]): r[4] for r in rows if r[2:3] in ([UNDECIDED], [NOT_ASKED])}
    assert set(listed) == {one for one in known if one[2] in (UNDECIDED, NOT_ASKED)}
    assert all(re.match(r"[\d.e+-]+ (core|GPU)-hours", cost) for cost in listed.values())


def test_a_row_says_what_would_decide_and_its_range() -> None:
    cost = Cost(7200.0, 3600.0, 14400.0, ("as another",))
    found = [
        Experiment("figure9", "accuracy", UNDECIDED, "figure9 preset=gpu", cost, True, "few seeds"),
        Experiment("figure4", "flat", UNDECIDED, "", None, False, "no plan has it"),
    ]
    page = page_of(found, "laptop", PAGE)
    assert f"`python -m evidence preset=laptop dry_run=true page={PAGE}`" in page
    first, second = page.splitlines()[-2:]
    assert first == (
        "| figure9 | accuracy | not enough evidence | `python -m reproduce figure9 preset=gpu` | "
        "2 GPU-hours (1 to 4, estimate) |"
    )
    assert second == "| figure4 | flat | not enough evidence | no plan |  |"


@pytest.mark.parametrize("words", [[], ["dry_run=true", "device_like=h100"]])
def test_a_page_is_of_a_plan_for_here(words: list[str]) -> None:
    with pytest.raises(UserError, match="page= is a page of a plan: say dry_run=true"):
        Asked.read([f"page={Path(PAGE)}", *words], {})
