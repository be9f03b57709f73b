"""The fuzzer tries a few examples here, and sees what it looks for."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from core.errors import UserError
from tests import fuzz, watching

EXAMPLES = {fuzz.fuzz_records: 3, fuzz.fuzz_readers: 12, fuzz.fuzz_stores: 5, fuzz.fuzz_words: 12}


@pytest.fixture(scope="module")
def material(tmp_path_factory: pytest.TempPathFactory) -> fuzz.Material:
    return fuzz.Material(tmp_path_factory.mktemp("material"))


@pytest.mark.parametrize("target", EXAMPLES, ids=lambda target: target.__name__)
def test_what_anybody_may_have_made_is_answered(
    target: Callable[..., None], material: fuzz.Material
) -> None:
    fuzz.run_examples(target, material, EXAMPLES[target], own_seed=0)


def write_outside(folder: Path) -> None:
    (folder.parent / "outside").write_text("x")


def make_outside(folder: Path) -> None:
    (folder.parent / "outside").mkdir()


def rename_outside(folder: Path) -> None:
    (folder / "inside").write_text("x")
    (folder / "inside").rename(folder.parent / "outside")


def link_outside(folder: Path) -> None:
    (folder / "link").symlink_to(folder.parent)
    (folder / "link" / "outside").write_text("x")


def import_a_stranger(folder: Path) -> None:
    (folder / "stranger.py").write_text("")
    sys.path.insert(0, str(folder))
    import stranger  # type: ignore[import-not-found]  # noqa: F401


def connect(folder: Path) -> None:
    socket.create_connection(("127.0.0.1", 9), timeout=1)


def start(folder: Path) -> None:
    subprocess.run(["true"], check=True)


def fail(folder: Path) -> None:
    raise ValueError("a traceback")


def refuse_in_colours(folder: Path) -> None:
    print("error: \x1b[31mred", file=sys.stderr)
    raise SystemExit(2)


def refuse_without_a_word(folder: Path) -> None:
    raise SystemExit(2)


def hang(folder: Path) -> None:
    time.sleep(60)


def wait_for_a_pipe(folder: Path) -> None:
    os.mkfifo(folder / "pipe")
    (folder / "pipe").read_bytes()


@pytest.mark.parametrize(
    ("crime", "name"),
    [
        (write_outside, "written outside"),
        (make_outside, "os.mkdir outside"),
        (rename_outside, "os.rename outside"),
        (link_outside, "written outside"),
        (import_a_stranger, "imported from outside"),
        (connect, "socket."),
        (start, "started ['true']"),
        (fail, "ValueError: a traceback"),
        (refuse_in_colours, "exit code 2"),
        (refuse_without_a_word, "exit code 2"),
        (hang, "it hangs"),
        (wait_for_a_pipe, "it hangs"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_what_must_not_happen_is_seen_and_does_not_happen(
    crime: Callable[[Path], None], name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watching, "ASLEEP", 0.5)
    folder = tmp_path / "folder"
    folder.mkdir()
    assert name in watching.watch_door(lambda _: crime(folder), [], folder)
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]


def test_what_may_happen_is_not_noted(tmp_path: Path) -> None:
    def work(words: list[str]) -> int:
        (tmp_path / "folder").mkdir()
        (tmp_path / "folder" / "file").write_text("x")
        subprocess.run(["git", "--version"], check=True, stdout=subprocess.DEVNULL)
        if words:
            raise UserError("a sentence")
        return 0

    assert watching.watch_door(work, [], tmp_path) == ""
    (tmp_path / "folder" / "file").unlink()
    (tmp_path / "folder").rmdir()
    assert watching.watch_door(work, ["x"], tmp_path) == ""


def test_a_finding_ends_the_session_with_its_example(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def find(data: fuzz.Draw, material: fuzz.Material) -> None:
        raise fuzz.Found("python -m bench.train with ['x']")

    monkeypatch.setattr(fuzz, "Material", lambda folder: None)
    monkeypatch.setattr(fuzz, "TARGETS", [find])
    monkeypatch.setattr(fuzz.resource, "setrlimit", lambda *_: None)
    with pytest.raises(UserError, match=r"seed=4: python -m bench.train with \['x'\]") as error:
        fuzz.main(["minutes=0.1", "seed=4"])
    assert error.value.exit_code == 1
    with pytest.raises(UserError, match="none of the words"):
        fuzz.main(["minutes=long"])
