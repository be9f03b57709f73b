"""Every number of the README's table and of the pages in docs/results is the committed board's."""

import io
import json
import re
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from PIL import Image

from bench.records.schema import RunRecord
from core.effects import Effect
from core.errors import VERIFICATION_FAILED, UserError
from core.escaping import markdown
from leaderboards import readme
from leaderboards.build import FOLDER
from leaderboards.contents import Board, ClaimLine
from leaderboards.markdown import homes_of, pages
from leaderboards.render import NOT_ASKED, VERDICTS
from leaderboards.summary import summary
from leaderboards.tables.builder import build_board
from leaderboards.tables.verdicts import FigureVerdicts, JudgedClaim
from leaderboards.views.abilities.heat_map import CONTENT, picture, png
from leaderboards.views.figures import PRESETS, figures_of, most_demanding
from reproduce.claims.history import history
from tests.committed import committed_board
from tests.leaderboards.conftest import record

LINES, WORDS, NUMBERS = 120, 600, 60  # of README; words and numbers outside its commands
MARKDOWN = MarkdownIt("commonmark").enable(["table", "strikethrough"])


@pytest.fixture(scope="module")
def board() -> Board:
    return committed_board()


@pytest.fixture(scope="module")
def made(board: Board) -> dict[str, str]:
    return pages(board)


@pytest.fixture
def copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, board: Board, made: dict[str, str]
) -> Path:
    """The README and its pages, to be spoiled. The pages of the committed board are made once."""
    monkeypatch.setattr(readme, "read_board", lambda path: board)
    monkeypatch.setattr(readme, "pages", lambda board: made)
    shutil.copytree(readme.ROOT / "docs" / "results", tmp_path / "docs" / "results")
    shutil.copy(readme.ROOT / "README.md", tmp_path)
    shutil.copy(readme.ROOT / readme.PICTURE, tmp_path / readme.PICTURE)
    monkeypatch.setattr(readme, "ROOT", tmp_path)
    return tmp_path


def test_readme_and_pages_hold_the_results_of_the_committed_board() -> None:
    assert readme.main(["--check"]) == 0


def test_every_measured_headline_is_on_the_page_of_its_task(
    board: Board, made: dict[str, str]
) -> None:
    for row in board.rows:
        if row.headline and row.kind == "measured" and row.mean is not None:
            assert f"{row.mean:.3f}" in made[f"{row.task}.md"]


def test_every_verdict_is_on_the_page_of_the_task_of_its_records(
    board: Board, made: dict[str, str]
) -> None:
    tasks = {record.run_id: record.task for record in board.records}
    homes = homes_of(board)
    for claim in board.claims:
        page = made[f"{homes[claim.figure]}.md"]
        line = next(line for line in page.splitlines() if f"| {markdown(claim.sentence)} |" in line)
        assert any(word in line for word in VERDICTS)
        assert markdown(claim.evidence) in page
        for task in {tasks[run] for run in claim.run_ids}:  # every other page leads there
            assert f"{claim.figure}-{claim.preset}" in made[f"{task}.md"]


def test_every_claim_says_when_it_was_set_and_what_was_changed_about_it(
    board: Board, made: dict[str, str]
) -> None:
    began = {r.run_id: json.loads(r.content)["provenance"]["started_at"] for r in board.records}
    began |= json.loads((FOLDER / "repeats.json").read_text())  # of the first that a run repeats
    homes = homes_of(board)
    for figure in figures_of(board.claims):
        page = made[f"{homes[figure.name]}.md"].partition(f'id="{figure.anchor}"')[2]
        page = page.partition('<a id="')[0]
        first = min(began[run] for run in figure.claims[0].run_ids)[:16].replace("T", " ")
        assert f"The first of their runs began on {first} (UTC)." in page
        for claim in figure.claims:
            start = f"| {markdown(claim.name)} | {markdown(claim.evidence)} |"
            (line,) = [line for line in page.splitlines() if line.startswith(start)]
            when = line.split(" | ")[-1]
            assert claim.set is not None
            assert when.startswith(claim.set[:16].replace("T", " "))
            alone = "not asked again"
            if claim.confirmed:
                alone = "confirmed"
            elif claim.confirmed is None:
                alone = "not decided"
            elif claim.asked_again:
                alone = "not confirmed"
            late = f", after its runs began; by later ones alone: {alone}"
            expected = late if claim.after_runs else ", before its runs"
            assert when.endswith(f"{expected} |")
        told = [change for change in history() if change.names_of(figure.name)]
        if told:  # once, below the first of the figure's presets
            whole = made[f"{homes[figure.name]}.md"].partition(f'id="{figure.name}-')[2]
            whole = whole.partition("what was changed about these claims")[2]
            table = whole.partition("</details>")[0]
            assert all(markdown(change.title) in table for change in told)


def test_what_contradicts_a_source_stands_before_the_other_claims_of_its_figure(
    board: Board, made: dict[str, str]
) -> None:
    homes = homes_of(board)
    moved = 0
    for figure in figures_of(board.claims):
        judged = [c for c in board.claims if (c.figure, c.preset) == (figure.name, figure.preset)]
        first = [claim.name for claim in judged if claim.verdict == "contradicted"]
        names = first + [claim.name for claim in judged if claim.verdict != "contradicted"]
        moved += names != [claim.name for claim in judged]
        page = made[f"{homes[figure.name]}.md"].partition(f'id="{figure.anchor}"')[2]
        page = page.partition('<a id="')[0]
        shown, _, folded = page.partition("<details>")
        signs = re.findall(r"^\| ([✓✗?○]) ", shown, re.MULTILINE)
        assert [sign == "✗" for sign in signs] == [name in first for name in names]
        places = [folded.index(f"\n| {markdown(name)} | ") for name in names]
        assert places == sorted(places)
    assert moved > 3  # the verdict files have them in the order of their claims


def test_verdicts_come_before_measurements_and_evidence_is_folded(made: dict[str, str]) -> None:
    for name, page in made.items():
        headings = re.findall(r"^## (.*)$", page, re.MULTILINE)
        assert headings in (["Verdicts", "Measurements"], ["Measurements"], ["Verdicts", "Tasks"])
        assert page.count("<details>") == page.count("</details>"), name
        if name != "README.md":
            open_part = re.sub(r"<details>.*?</details>", "", page, flags=re.DOTALL)
            assert "counts as reproduced" not in open_part


def test_every_link_between_pages_leads_somewhere(made: dict[str, str]) -> None:
    for page in made.values():
        for name, _, anchor in re.findall(r"\]\((\w+\.md)(#([\w-]+))?\)", page):
            assert name in made
            assert not anchor or f'<a id="{anchor}"></a>' in made[name]


def test_the_index_counts_every_claim_once(board: Board, made: dict[str, str]) -> None:
    lines = [line for line in made["README.md"].splitlines() if ".md#" in line]
    counts = [[int(cell) for cell in re.findall(r"(?<=\| )\d+(?= \|)", line)] for line in lines]
    for place, word in enumerate(VERDICTS):
        assert sum(row[place] for row in counts) == sum(c.verdict == word for c in board.claims)


def test_the_readme_counts_each_figure_at_its_most_demanding_preset(board: Board) -> None:
    laptop_of_8 = ("figure8", "laptop")  # without it that figure is run at smoke alone
    kept = tuple(one for one in board.claims if (one.figure, one.preset) != laptop_of_8)
    board = replace(board, claims=kept)
    best = most_demanding(figures_of(board.claims))
    assert len(best) == len({claim.figure for claim in board.claims})
    at = {figure.name: figure.preset for figure in best}
    assert at["figure9"] == "laptop"
    counted = {name: preset for name, preset in at.items() if preset != "smoke"}
    assert 0 < len(counted) < len(at)  # what is run at smoke alone is told apart
    shown = [claim for claim in board.claims if counted.get(claim.figure) == claim.preset]
    judged = [claim for claim in shown if claim.verdict != NOT_ASKED]
    assert f"**{len(judged)} published claims" in summary(board)


def test_what_a_preset_does_not_ask_is_no_verdict(board: Board) -> None:
    def not_asked(claim: ClaimLine) -> ClaimLine:
        cost = "about 3 hours"
        return replace(claim, verdict=NOT_ASKED, asked_at="gpu", cost=cost, seeds_needed=None)

    claims = tuple(not_asked(c) if c.figure == "figure8" else c for c in board.claims)
    mine = [claim for claim in claims if claim.figure == "figure8" and claim.preset == "laptop"]
    best = most_demanding(figures_of(claims))
    counted = [claim for figure in best if figure.preset != "smoke" for claim in figure.claims]
    left_out = sum(claim.verdict == NOT_ASKED for claim in counted)
    made = pages(replace(board, claims=claims))
    shown = summary(replace(board, claims=claims))
    assert f"; for {left_out} more no runs are made yet" in shown
    page = made["wikipedia.md"].partition('id="figure8-laptop"')[2].partition("</details>")[0]
    assert page.count("○ not asked here (preset gpu asks it, with about 3 hours)") == len(mine) > 0
    [line] = [line for line in made["README.md"].splitlines() if "#figure8-laptop" in line]
    assert line.endswith(f"| 0 | 0 | 0 | {len(mine)} |")


def test_verdicts_without_records_are_refused(board: Board) -> None:
    lost = replace(board, claims=tuple(replace(claim, run_ids=()) for claim in board.claims))
    with pytest.raises(UserError, match="name no record of the board"):
        pages(lost)


def test_a_preset_that_somebody_added_comes_after_the_others(board: Board) -> None:
    own = record("gpt2", "GPT2", preset="a_preset_of_mine")
    made = pages(build_board([record("gpt2", "GPT2"), own]))
    assert "`smoke`, `a_preset_of_mine`" in made["README.md"]
    headings = re.findall(r"^### Preset `(\w+)`", made["regbench.md"], re.MULTILINE)
    assert headings == ["smoke", "a_preset_of_mine"]
    claims = [replace(claim, preset="a_preset_of_mine") for claim in board.claims]
    assert {figure.preset for figure in most_demanding(figures_of(board.claims))} <= set(PRESETS)
    added = replace(board, claims=(*board.claims, *claims))
    assert most_demanding(figures_of(added.claims)) == most_demanding(figures_of(board.claims))


PAYLOADS = [
    readme.START,
    readme.END,
    "a | b |\n| c | d |\n\n# e",
    "<script>alert(1)</script></details>",
    "[x](javascript:alert(1)) ![x](https://evil.example)",
    "__x__ **y** `z` $x$ &lt; \\",
]


def hostile(payload: str, place: str) -> Board:
    """A board that holds the payload as label, cause, name of a metric or setting of a record, as
    the variant of a table, or as any text of two verdicts."""
    label = payload if place == "label" else "GPT2"
    if place == "cause":
        return build_board([record("gpt2", label, accuracy=None, outcome="failed", cause=payload)])
    made = [record("gpt2", label, seed, 0.5 + seed / 9) for seed in (0, 1)]
    if place == "label":  # of a row that the sentence on fewer trials names
        tuned: dict[str, Any] = {"role": "final", "trials": 3}
        made = [record("gpt2", label, seed, 0.5 + seed / 9, **tuned) for seed in (0, 1)]
        made += [
            record("lstm", "LSTM", seed, 0.8 + seed / 90, **{**tuned, "trials": 8})
            for seed in (0, 1)
        ]
    if place == "metric":
        headline = made[0].headline.model_copy(update={"name": payload})
        metrics = {"test": {payload: 0.5}}
        made = [one.model_copy(update={"headline": headline, "metrics": metrics}) for one in made]
    if place == "key":
        config = {**made[0].config, "models": {payload: payload}}
        other = {"config": config, "identity": "f" * 64, "run_id": f"regbench-gpt2-{'f' * 12}-s0"}
        made.append(made[0].model_copy(update=other))
    if place == "variant":
        settings = {"training_automata": payload, payload: payload}
        made += [record("gpt2", seed=seed, task_settings=settings) for seed in (0, 1)]
    return build_board(made, verdicts=hostile_verdicts(payload, made) if place == "verdict" else ())


def hostile_verdicts(payload: str, records: Sequence[RunRecord]) -> list[FigureVerdicts]:
    """One of each kind, of a figure whose every text is the payload."""
    texts = dict.fromkeys(("source", "sentence", "tolerance", "evidence"), payload)
    more: list[dict[str, Any]] = [
        {"verdict": "reproduced", "set": payload, "p": 0.5},
        {"verdict": "contradicted", "effect": Effect(payload, 1.5, payload, 2.0)},
        {"verdict": "not enough evidence", "seeds_needed": 9},
        {"verdict": NOT_ASKED, "asked_at": payload, "cost": payload},
    ]
    claims = [
        JudgedClaim(name=f"{k} {payload}", seeds=2, **texts, **own) for k, own in enumerate(more)
    ]
    run_ids = [one.run_id for one in records]
    parts: dict[str, Any] = {"title": payload, "records": run_ids, "claims": claims}
    return [
        FigureVerdicts(schema_version=1, figure="figure9", preset=preset, **parts)
        for preset in ("smoke", "laptop")
    ]


@pytest.mark.parametrize("place", ["label", "cause", "metric", "key", "variant", "verdict"])
def test_no_text_of_a_record_is_markdown_and_writing_twice_changes_nothing(place: str) -> None:
    kinds = []
    for payload in ("plain & simple", *PAYLOADS):
        board = hostile(payload, place)
        made, part = pages(board), summary(board)
        page = made["regbench.md"] + made["README.md"]
        kinds.append([_kinds(made["regbench.md"]), _kinds(made["README.md"]), _kinds(part)])
        once = readme.with_results(f"a\n{readme.START}\nb\n{readme.END}\nc\n", part, "README")
        assert readme.with_results(once, part, "README") == once
        assert once.startswith("a\n")
        assert once.endswith("\nc\n")
        assert len(re.findall(r"(?<!\\)<script|(?<!\\):(?=//)", page + part)) == 0
    assert all(kind == kinds[0] for kind in kinds)


def _kinds(page: str) -> list[str]:
    """What a parser of Markdown makes of a page, apart from the texts in it."""
    tokens = [part for token in MARKDOWN.parse(page) for part in (token, *(token.children or ()))]
    return [token.type for token in tokens if token.type not in ("text", "text_special")]


@given(st.lists(st.sampled_from([readme.START, readme.END, "\n", "x"]), max_size=6).map("".join))
def test_a_section_with_markers_does_not_grow(section: str) -> None:
    once = readme.with_results(f"a\n{readme.START}\n{readme.END}\nc\n", section, "README")
    assert readme.with_results(once, section, "README") == once


def test_an_edited_number_is_noticed(copy: Path) -> None:
    readme_file, page = copy / "README.md", copy / "docs" / "results" / "regbench.md"
    assert readme.main(["--check"]) == 0
    page.write_text(page.read_text().replace("0.", "1.", 1))
    text = readme.with_results(readme_file.read_text(), "| GPT2 | 1 | 0.999 |\n", "README.md")
    readme_file.write_text(text)
    with pytest.raises(UserError, match=r"README\.md, docs/results/regbench\.md are not") as found:
        readme.main(["--check"])
    assert found.value.exit_code == VERIFICATION_FAILED
    assert readme.main([]) == readme.main(["--check"]) == 0


def test_a_picture_of_other_numbers_is_noticed_and_drawn_again(copy: Path, board: Board) -> None:
    drawing = copy / readme.PICTURE
    before = drawing.read_bytes()
    other = replace(board, rows=tuple(replace(row, mean=0.5) for row in board.rows))
    drawing.write_bytes(png(picture(other)))
    with pytest.raises(UserError, match=r"the results in docs/abilities\.png are not"):
        readme.main(["--check"])
    assert readme.main([]) == readme.main(["--check"]) == 0
    with Image.open(drawing) as drawn, Image.open(io.BytesIO(before)) as committed:
        assert drawn.info[CONTENT] == committed.info[CONTENT]
        assert drawn.size == committed.size
    drawing.unlink()
    assert readme.main([]) == 0
    assert drawing.exists()


def test_the_page_of_a_task_that_is_gone_is_refused_and_then_removed(copy: Path) -> None:
    old = copy / "docs" / "results" / "no_such_task.md"
    old.write_text("# A task that was removed\n")
    with pytest.raises(UserError, match=r"no task with the page docs/results/no_such_task\.md"):
        readme.main(["--check"])
    assert readme.main([]) == 0
    assert not old.exists()


def test_a_readme_without_its_markers_is_refused(copy: Path) -> None:
    (copy / "README.md").write_text(f"no {readme.START} second marker")
    with pytest.raises(UserError, match="must hold the lines"):
        readme.main([])


def test_the_readme_is_short() -> None:
    text = (readme.ROOT / "README.md").read_text()
    assert len(text.splitlines()) <= LINES
    prose = re.sub(r"```.*?```", " ", text, flags=re.DOTALL)
    assert len(re.findall(r"[A-Za-z][\w'-]*", prose)) <= WORDS
    assert len(re.findall(r"(?<![\w.])\d[\d,.]*", prose)) <= NUMBERS


def test_the_readme_names_the_presets_that_were_run_and_those_that_were_not(board: Board) -> None:
    run = {record.preset for record in board.records}
    scale = summary(board).partition("**Scale**")[2]
    told_run, _, told_missing = scale.partition("Nothing was run at ")
    assert set(re.findall(r"`(\w+)`", told_run)) == run & set(PRESETS)
    assert set(re.findall(r"`(\w+)`", told_missing)) == set(PRESETS) - run
    table = (readme.ROOT / "docs" / "running.md").read_text()
    told = re.findall(r"^\| `(\w+)` \|.*\| (.*) \|$", table, re.MULTILINE)
    sizes = {preset: size for preset, size in told if preset in PRESETS}
    assert set(sizes) == set(PRESETS)
    for preset, size in sizes.items():
        assert ("not run yet" in size) == (preset not in run), preset
