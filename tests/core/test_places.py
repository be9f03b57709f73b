"""Places that a person names, wherever a command stands meanwhile."""

from pathlib import Path

import pytest

from bench.writing.side_by_side import PromptSettings
from core.errors import UserError
from core.files import fixed_working_directory
from core.places import absolute, absolute_if_path, is_path, readable
from leaderboards.arguments import read
from tests.configurations import compose

RUN = ("tasks=babistories", "models=lstm", "preset=smoke")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home folder; the working directory is another one."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path / "home"


def test_a_place_is_absolute_and_knows_the_home_folder(home: Path) -> None:
    here = Path.cwd()
    assert absolute("~/runs") == home / "runs"
    assert absolute("runs") == here / "runs"
    assert absolute("./~/runs") == here / "~" / "runs"
    assert absolute("/somewhere/../else") == Path("/somewhere/../else")  # a link may be on the way
    with pytest.raises(UserError, match=r"begins with ~nobody-of-that-name, .* write the path in"):
        absolute("~nobody-of-that-name/runs")
    assert (readable(here / "runs" / "a.json"), readable(home)) == (
        "runs/a.json",
        str(home),
    )


def test_an_address_of_a_server_is_no_path(home: Path) -> None:
    for address in ("http://127.0.0.1:8000/v1", "localhost:8000/v1", "10.0.0.1:80", None, 4):
        assert not is_path(address)
        assert absolute_if_path(address) == address
    assert absolute_if_path("stories.txt") == str(Path.cwd() / "stories.txt")


@pytest.mark.parametrize("word", ["~/runs", '"~/runs"'])
def test_every_place_of_a_configuration_is_resolved_once(
    home: Path, monkeypatch: pytest.MonkeyPatch, word: str
) -> None:
    """Also where the shell leaves ~ as it is, and where an environment variable has it."""
    monkeypatch.setenv("MEMORY_BENCH_PREPARED", "~/prepared")
    text = ("tasks.corpus=local", "tasks.tokenizer=grammar")
    configuration = compose([*RUN, *text, f"store={word}", "tasks.stories=stories.txt"])
    assert configuration.store == home / "runs"
    assert configuration.tasks["stories"] == str(Path.cwd() / "stories.txt")
    if configuration.tasks["prepared"].startswith(str(home)):  # read once in a process
        assert configuration.tasks["prepared"] == str(home / "prepared")
    again = type(configuration).model_validate_json(configuration.model_dump_json())
    assert again == configuration


def test_a_command_knows_where_it_was_given(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = Path.cwd()
    with fixed_working_directory():
        monkeypatch.chdir("/")  # as a model's package may
        assert compose([*RUN, "store=runs"]).store == here / "runs"
        assert read(["to=~/sent"], ["to"]).place("to", "") == home / "sent"
        assert read([], ["to"]).place("to", "sent") == here / "sent"
        settings = PromptSettings.of({"runs": "[a]", "output": "a.md"})
        assert (settings.store, settings.output) == (here / "runs", here / "a.md")
    assert absolute("runs") == Path("/runs")
