"""The page of open claims, of the committed verdicts and by itself."""

import json
import re
from pathlib import Path

import pytest

from bench.config.command_line import read
from core.errors import UserError
from leaderboards.build import FOLDER
from reproduce.__main__ import reproductions
from reproduce.claims.verdicts import NOT_ASKED, UNDECIDED
from reproduce.planning.command import EvidenceRequest
from reproduce.planning.cost import ExpectedCost
from reproduce.planning.experiments import DecidingRuns
from reproduce.planning.page import page_of
from tests.conftest import ROOT

PAGE = "docs/open_claims.md"


def test_the_page_lists_every_claim_that_is_open_and_what_it_costs() -> None:
    """Made again by the command that it names, after verdicts changed. What a decision has closed
    says so beside the command by which others may repeat it."""
    files = [json.loads(p.read_text()) for p in sorted((FOLDER / "verdicts").glob("*-laptop.json"))]
    claims = [(file["figure"], claim) for file in files for claim in file["claims"]]
    known = {(figure, one["name"], one["verdict"]) for figure, one in claims}
    text = (ROOT / PAGE).read_text()
    assert f" page={PAGE}`" in text  # and no path of the machine where it was made
    rows = [line.strip("| ").split(" | ") for line in text.splitlines()]
    listed = {(r[0], r[1], r[2]): r[3:] for r in rows if r[2:3] in ([UNDECIDED], [NOT_ASKED])}
    every = {(f, claim.name): claim for f, own in reproductions().items() for claim in own.claims}
    # Of a figure without any run there is no file, and every claim is open.
    judged = {figure for figure, _, _ in known}
    known |= {(figure, name, UNDECIDED) for figure, name in every if figure not in judged}
    assert set(listed) == {one for one in known if one[2] in (UNDECIDED, NOT_ASKED)}
    for (figure, name, _), (what, *cost) in listed.items():
        assert what.startswith("`python -m reproduce ")
        assert re.match(r"[\d.e+-]+ (core|GPU)-hours", cost[0])
        closed = (every[figure, name].closed or {}).get("laptop")
        if closed and closed.repeated:
            assert what.endswith(f"by decision (reproduce/claims/history.yaml: {closed.decision})")


def test_a_row_says_what_would_decide_and_its_range() -> None:
    cost = ExpectedCost(7200.0, 3600.0, 14400.0, ("as another",))
    found = [
        DecidingRuns(
            "figure9", "accuracy", UNDECIDED, "figure9 preset=gpu", cost, True, "few seeds"
        ),
        DecidingRuns("figure5", "steep", UNDECIDED, "", None, False, "few seeds", "closed"),
        DecidingRuns("figure4", "flat", UNDECIDED, "", None, False, "no plan has it"),
    ]
    page = page_of(found, "laptop", PAGE)
    assert f"`python -m reproduce evidence preset=laptop dry_run=true page={PAGE}`" in page
    first, closed, second = page.splitlines()[-3:]
    assert first == (
        "| figure9 | accuracy | not enough evidence | `python -m reproduce figure9 preset=gpu` | "
        "2 GPU-hours (1 to 4, estimate) |"
    )
    assert closed == "| figure5 | steep | not enough evidence | closed |  |"
    assert second == "| figure4 | flat | not enough evidence | no plan |  |"


@pytest.mark.parametrize("words", [[], ["dry_run=true", "device_like=h100"]])
def test_a_page_is_of_a_plan_for_here(words: list[str]) -> None:
    with pytest.raises(UserError, match="page= is a page of a plan: say dry_run=true"):
        EvidenceRequest.of(read([f"page={Path(PAGE)}", *words]), {})
