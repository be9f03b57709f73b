"""The documentation is executed: its examples become files, its commands exist."""

import json
import re
import shutil
from pathlib import Path

import pytest

from reproduce.claims.verdicts import CONTRADICTED, REPRODUCED
from tests.commands import run
from tests.conftest import ROOT

FILE_AND_CODE = re.compile(r"`([\w/]+\.(?:py|yaml))`[^\n]*\n\n```\w+\n(.*?)```", re.DOTALL)


SHORT = ["training.steps=3", "n_trials=1", "seeds=1"]


def examples(page: str) -> dict[str, str]:
    """Files that a page tells its reader to write: path -> content."""
    return dict(FILE_AND_CODE.findall((ROOT / "docs" / page).read_text()))


def copy_of_the_repository(folder: Path) -> Path:
    unwanted = shutil.ignore_patterns(".*", "*.egg-info")  # compiled modules are as good there
    large = {ROOT: {"runs"}, ROOT / "leaderboards": {"records"}}  # bench/runs is no store

    def skipped(place: str, names: list[str]) -> set[str]:
        return unwanted(place, names) | large.get(Path(place), set())

    return shutil.copytree(ROOT, folder / "repository", ignore=skipped)


ADDED = {  # page: what its reader adds, the tests that it must pass, and a command that takes it
    "add_a_model.md": (
        ["running_mean", "learned_retention"],
        ["tests/models/test_conformance.py"],
        ["bench.sweep", "tasks=regbench", "models=[running_mean,learned_retention]", *SHORT],
    ),
    "add_a_task.md": (
        ["copy_first"],
        ["tests/tasks/test_task_conformance.py"],
        ["bench.train", "tasks=copy_first", "models=gpt2", "training.steps=3"],
    ),
    "add_a_memory.md": (
        ["fading_sum", "first_of_many"],
        [
            "tests/models/memories/test_conformance.py",
            "tests/tasks/test_measurement_conformance.py",
        ],
        ["bench.sweep", "tasks=first_of_many", "models=[fading_sum,delta_rule]", "seeds=2"],
    ),
}


# Each as `python -m` runs it, in one process: the imports are half of what a command costs.
ONE_AFTER_ANOTHER = """
import json, runpy, sys
for words in json.loads(sys.argv[1]):
    sys.argv[:] = words
    try:
        runpy.run_module(words[0], run_name="__main__", alter_sys=True)
    except SystemExit as ended:
        assert not ended.code, words
"""


def run_in(repository: Path, *commands: list[str]) -> str:
    """What the commands print, each of which must end with exit code 0."""
    words = ["-c", ONE_AFTER_ANOTHER, json.dumps(commands)]
    done = run(*words, cwd=repository, env={"PYTHONPATH": str(repository)})
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.processes
@pytest.mark.long
def test_what_a_stranger_adds_by_the_pages_is_found_and_conforms(tmp_path: Path) -> None:
    repository = copy_of_the_repository(tmp_path)
    for page, (names, _, _) in ADDED.items():
        files = examples(page)
        for one in names:
            assert len([path for path in files if one in path]) == 2  # a file and its YAML
        for path, content in files.items():
            (repository / path).parent.mkdir(exist_ok=True)
            (repository / path).write_text(content)

    known = [one for names, _, _ in ADDED.values() for one in names]
    files_of_tests = [path for _, tests, _ in ADDED.values() for path in tests]
    words = ["pytest", "-v", "--assert=plain", "-p", "no:cacheprovider", *files_of_tests]
    told = run_in(repository, [*words, "-k", " or ".join(known)])
    for one in known:
        assert re.search(rf"\[.*{one}.*\] PASSED", told), one
    commands = [[*words, f"store={tmp_path / 'runs'}"] for _, _, words in ADDED.values()]
    listed = run_in(repository, *commands, ["bench"])
    assert all(one in listed for one in known)


@pytest.mark.long
@pytest.mark.processes
def test_a_figure_that_a_stranger_adds_by_the_page_has_a_session_a_picture_verdicts_and_rows(
    tmp_path: Path,
) -> None:
    from leaderboards.contents import read_board

    repository = copy_of_the_repository(tmp_path)
    ((path, content),) = examples("add_a_figure.md").items()
    assert len(content.splitlines()) < 80
    (repository / path).write_text(content)
    name = Path(path).stem
    build = ["leaderboards.build", "local=true"]
    printed = run_in(repository, ["reproduce", name], build, ["nox", "-l"])
    assert f"reproduce_{name}" in printed
    assert "2 reproduced, 0 contradicted" in printed
    made = repository / "runs" / "reproductions" / name / "smoke"
    assert {"figure.png", "curves.json", "verdicts.json"} <= {p.name for p in made.iterdir()}
    board = read_board(repository / "runs" / "board.parquet")
    assert {claim.name for claim in board.claims if claim.figure == name} == {
        "the delta rule overwrites",
        "a sum does not",
    }
    assert {row.model for row in board.rows if row.headline} >= {"outer_product", "delta_rule"}


def test_every_command_in_the_documentation_exists() -> None:
    from bench.__main__ import COMMANDS

    known = {command.split()[2] for command in COMMANDS} | {"evidence", "pytest", "pip", "nox"}
    sessions = set(re.findall(r"^def (\w+)\(session", (ROOT / "noxfile.py").read_text(), re.M))
    sessions |= {f"reproduce_{p.stem}" for p in (ROOT / "reproduce").glob("*/[!_]*.py")}
    sessions |= {f"reproduce_{Path(path).stem}" for path in examples("add_a_figure.md")}
    for page in (ROOT / "README.md", *(ROOT / "docs").rglob("*.md")):
        text = page.read_text()
        for module in re.findall(r"python -m ([\w.]+)", text):
            assert module in known, f"{page.name}: python -m {module}"
        for named in re.findall(r"nox -s((?: \w+)+)", text):
            for session in named.split()[: None if "reproduce" in named else 1]:
                assert session in sessions, f"{page.name}: nox -s {session}"


def test_every_link_in_the_documentation_leads_to_a_file() -> None:
    for page in (ROOT / "README.md", *(ROOT / "docs").rglob("*.md")):
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_the_map_names_every_room() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text()
    for house in ["core", "models", "tasks", "bench", "reproduce", "leaderboards"]:
        assert f"| `{house}/` |" in page
    for house in ("bench", "reproduce", "leaderboards"):
        for room in sorted(path.parent.name for path in (ROOT / house).glob("*/__init__.py")):
            assert re.search(rf"`{room}/?`", page), f"{house}/{room} is not on the map"
    for module in sorted(path.name for path in (ROOT / "leaderboards").glob("[a-z]*.py")):
        assert f"`{module}`" in page or f"`leaderboards/{module}`" in page, f"{module} is missing"


def test_figure_8_on_halves_of_the_articles_is_told_as_it_came_out() -> None:
    """Each effect with its sign, which is the same in both halves, and no verdict turned round."""
    measured = ROOT / "docs" / "measurements"
    places = [
        ROOT / "leaderboards" / "verdicts" / "figure8-laptop.json",
        *(measured / f"figure8_articles_half_{half}.json" for half in (1, 2)),
    ]
    page = (ROOT / "docs" / "language.md").read_text()
    for parts in zip(*(json.loads(place.read_text())["claims"] for place in places), strict=True):
        (name,) = {claim["name"] for claim in parts}
        effects = [claim["effect"]["difference"] for claim in parts]
        assert len({effect > 0 for effect in effects}) == 1, name
        assert {REPRODUCED, CONTRADICTED} - {claim["verdict"] for claim in parts}, name
        cells = [f"{e:+.3f}, {c['verdict']}" for e, c in zip(effects, parts, strict=True)]
        assert f"| {name} | {' | '.join(cells)} |" in page
