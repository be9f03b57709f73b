"""docs/sources.md names every claim, and nothing that is none; every row has claims or a reason."""

import re
from collections import defaultdict
from functools import cache

import pytest

from reproduce.__main__ import reproductions
from tests.conftest import ROOT

PAGE = ROOT / "docs" / "sources.md"
SOURCES = ("Memory Mosaics", "Associative memories as a tractable", "Titans: Learning to memorise")
FIGURE = re.compile(r"(?:\[`(\w+)`\]\(([^)]+)\)|`(\w+)`): (.+)")
COUNT = re.compile(r"all (\d+)")
NONE = "*None*: "
SHORTEST = 5  # words of a reason
# What the documents number and name themselves, read from them.
NUMBERED = {
    SOURCES[0]: [*(f"figure {n}" for n in range(1, 17)), *(f"table {n}" for n in range(1, 6))],
    SOURCES[1]: [
        "Lemma (gradients as memories)",
        "Theorem (B. et al. 2023)",
        "Lemma (gradients with noisy inputs)",
        "Theorem (Chen et al. 2024)",
        "Theorem (Nichani et al. 2024), attention and MLP",
        "Theorem (Nichani et al. 2024), attention only",
        "Theorem (Nichani et al. 2024), training dynamics",
        *(f"Theorem (Cabannes et al. 2023), {n}" for n in (1, 2, 3)),
    ],
    SOURCES[2]: [
        "introduction",
        "my implementation",
        "a tricky detail",
        "initial tests",
        "testing capacity",
        "testing forgetting",
        "next steps",
    ],
}


@cache
def rows() -> dict[str, list[list[str]]]:
    """The cells of each section's rows."""
    sections: dict[str, list[list[str]]] = {}
    for section in PAGE.read_text().split("\n## ")[1:]:
        title, _, content = section.partition("\n")
        lines = [line for line in content.splitlines() if line.startswith("|")]
        cells = [re.split(r"(?<!\\)\|", line.strip("|")) for line in lines[2:]]
        sections[title] = [[cell.strip() for cell in row] for row in cells]
    return sections


def named(cell: str) -> dict[str, list[str]]:
    """Figure -> the claims that a cell names."""
    by_figure = {}
    for part in cell.split("<br>"):
        match = FIGURE.fullmatch(part)
        assert match, part
        figure = match[1] or match[3]
        claims = [claim.name for claim in reproductions_by_name()[figure].claims]
        if count := COUNT.fullmatch(match[4]):
            assert int(count[1]) == len(claims), part
            by_figure[figure] = claims
        else:
            by_figure[figure] = match[4].split("; ")
            assert set(by_figure[figure]) <= set(claims), part
    return by_figure


reproductions_by_name = cache(reproductions)


def test_every_claim_stands_on_the_page_and_no_other() -> None:
    on_the_page: dict[str, set[str]] = defaultdict(set)
    for row in [row for section in rows().values() for row in section]:
        assert len(row) == 3, row
        if not row[-1].startswith(NONE):
            for figure, claims in named(row[-1]).items():
                on_the_page[figure] |= set(claims)
    experiments = reproductions_by_name()
    expected = {name: {claim.name for claim in one.claims} for name, one in experiments.items()}
    assert on_the_page == expected


def test_what_has_no_claim_has_a_reason() -> None:
    reasons = []
    for row in [row for section in rows().values() for row in section]:
        assert all(row), row
        if row[-1].startswith(NONE):
            reasons.append(row[-1].removeprefix(NONE))
    assert len(reasons) > 10
    assert all(len(reason.split()) >= SHORTEST for reason in reasons)


@pytest.mark.parametrize("source", SOURCES)
def test_what_a_source_numbers_or_names_is_there(source: str) -> None:
    (title,) = [title for title in rows() if title.startswith(source)]
    places = {part for where, *_ in rows()[title] for part in (where, *where.split(", "))}
    assert set(NUMBERED[source]) <= places


def test_links_of_figures_lead_to_their_verdicts() -> None:
    linked, committed = {}, set()
    for path in (ROOT / "leaderboards" / "verdicts").glob("*.json"):
        committed.add(path.stem.rpartition("-")[0])
    for match in re.finditer(r"\[`(\w+)`\]\(results/(\w+\.md)#([\w-]+)\)", PAGE.read_text()):
        name, file, anchor = match.groups()
        assert anchor.rpartition("-")[0] == name
        assert f'<a id="{anchor}"></a>' in (PAGE.parent / "results" / file).read_text()
        linked[name] = file
    assert set(linked) == committed
