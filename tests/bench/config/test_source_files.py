"""Classes that a command line names by their file."""

import sys
from pathlib import Path

import pytest

from bench.config import source_files
from bench.config.command_line import read, read_each, read_with_lists
from bench.config.external import load_class
from bench.config.source_files import trusted_names
from core.errors import UserError
from tests.configurations import compose

NET = """
from torch import nn
from layers_beside_it import SCALE

class Net(nn.Module):
    scale = SCALE
    def __init__(self, specification, width=8): super().__init__()
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a model in it, where a user stands."""
    monkeypatch.setattr(source_files, "_places", {})
    monkeypatch.setattr(source_files, "_imported", {})
    monkeypatch.setattr(sys, "path", [*sys.path])
    before = {*sys.modules}
    (tmp_path / "a_net.py").write_text(NET)
    (tmp_path / "layers_beside_it.py").write_text("SCALE = 1\n")
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    for name in {*sys.modules} - before:
        del sys.modules[name]


def test_targets_of_both_kinds_are_told_apart() -> None:
    for target, name, source in [
        ("net.py:GRU", "GRU", "net.py"),
        ("models.py:GRU", "GRU", "models.py"),
        ("models.gpt2.GPT2", "GPT2", "models"),
        ("package.py_module.Class", "Class", "package"),
    ]:
        assert source_files.class_name(target) == name
        assert source_files.source_name(target) == source
    assert source_files.names_file("/a/b c/net.py:GRU")
    assert not source_files.names_file("package.module.Class")


@pytest.mark.parametrize(
    ("word", "value"),
    [
        ("models=./net.py:GRU", "./net.py:GRU"),
        ("models=~/net.py:GRU", "~/net.py:GRU"),
        ("models=+~/a(b)/net.py:GRU", "+~/a(b)/net.py:GRU"),
        ("models=/a=b/ü/net.py:GRU", "/a=b/ü/net.py:GRU"),
        ("trust=~/my net.py", "~/my net.py"),
        ("models=[~/net.py:GRU,gpt2]", ["~/net.py:GRU", "gpt2"]),
        ("models=[+./a.py:A,+~/b.py:B]", ["+./a.py:A", "+~/b.py:B"]),
        ('models="~/net.py:GRU"', "~/net.py:GRU"),
    ],
)
def test_paths_are_written_as_a_shell_has_them(word: str, value: object) -> None:
    assert [value_read for _, value_read in read_each([word])] == [value]


def test_a_configuration_has_the_name_and_knows_the_place(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = []
    monkeypatch.setenv("HOME", str(folder))
    for path in ("a_net.py", "./a_net.py", f"{folder}/a_net.py", "~/a_net.py"):
        monkeypatch.setattr(source_files, "_places", {})
        found.append(compose(["tasks=regbench", f"models={path}:Net", "models.width=4"]))
    for configuration in found:
        assert configuration.models == {"_target_": "a_net.py:Net", "width": 4}
        assert configuration.model == configuration.label == "Net"
        assert configuration.source_files == {"a_net.py": folder / "a_net.py"}
        assert str(folder) not in str(configuration.resolved())


def test_another_file_of_the_name_takes_its_place(folder: Path) -> None:
    other = folder / "other"
    other.mkdir()
    (other / "a_net.py").write_text(NET)
    (other / "layers_beside_it.py").write_text("SCALE = 2\n")
    scales = []
    for path in ("./a_net.py:Net", "./other/a_net.py:Net", "./a_net.py:Net"):
        scales.append(load_class(source_files.use_named(path)).scale)  # type: ignore[attr-defined]
    assert scales == [1, 2, 1]
    with pytest.raises(UserError, match="two files of one name"):
        source_files.refuse_files_of_one_name(["./a_net.py:Net", "other/a_net.py:Other"])
    source_files.refuse_files_of_one_name(["./a_net.py:Net", f"{folder}/a_net.py:Other"])


def test_a_file_that_nobody_named_is_not_imported(folder: Path) -> None:
    for target in ("a_net.py:Net", f"{folder}/a_net.py:Net", "../a_net.py:Net"):
        with pytest.raises(UserError, match="is for you to say"):
            load_class(target)
    assert "a_net" not in sys.modules


@pytest.mark.parametrize(
    ("name", "code", "sentence"),
    [
        ("models.py", NET, "'models' is the name of a package of this project; give the file"),
        ("bench.py", NET, "'bench' is the name of a package of this project; give the file"),
        ("random.py", NET, "'random' is the name of a module of Python"),
        ("torch.py", NET, r"'torch' is the name of a module that is found before it \(.*torch"),
        ("a.b.py", NET, r"a second point: call it a_b\.py"),
        ("stops.py", "import math\n1 / 0\n", "stops.py, line 2, stops with ZeroDivisionError"),
        ("no_python.py", "x = 1\ndef f(:\n", r"no_python.py, line 2, stops with SyntaxError"),
        ("lacks.py", "\nimport not_there\n", r"lacks.py, line 2, .* \(No module named 'not_there"),
        ("inside.py", "from .layers import A\n", r"line 1, imports from the package around it"),
        ("uses.py", "from core import A\n", "uses.py imports 'core', .* give it another"),
        ("lower.py", "from models.own import A\n", "imports 'models', which is the name of a pack"),
        ("empty.py", "class Other: pass\n", "empty.py has no class 'Net': the nearest is 'Other'"),
        ("number.py", "Net = 1\n", "'number.py:Net' is not a class"),
    ],
)
def test_what_cannot_be_imported_is_one_true_sentence(
    folder: Path, name: str, code: str, sentence: str
) -> None:
    (folder / name).write_text(code)
    (folder / "core.py").write_text("A = 1\n")
    (folder / "models").mkdir()
    (folder / "models" / "own.py").write_text("A = 1\n")
    with pytest.raises(UserError, match=sentence) as caught:
        load_class(source_files.use_named(f"./{name}:Net"))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("target", "sentence"),
    [
        ("./nothing.py:Net", "there is no file ./nothing.py in "),
        ("./a_net.py:", "names no class"),
        ("./a_net.py:a-b", "names no class"),
        ("./folder.py:Net", "is not a regular file"),
    ],
)
def test_a_name_without_a_file_or_a_class_is_told(folder: Path, target: str, sentence: str) -> None:
    (folder / "folder.py").mkdir()
    with pytest.raises(UserError, match=sentence):
        compose(["tasks=regbench", f"models={target}"])


def test_a_folder_of_the_user_that_is_called_as_one_of_ours_is_told(folder: Path) -> None:
    (folder / "models").mkdir()
    (folder / "models" / "own.py").write_text(NET)
    with pytest.raises(UserError, match=r"name the file, models=\./models/own\.py:Net"):
        load_class("models.own.Net")
    (folder / "bench.py").write_text(NET)
    with pytest.raises(UserError, match=r"no class 'Net'.* models=\./bench\.py:Net"):
        load_class("bench.Net")


@pytest.mark.parametrize(
    ("words", "named"),
    [
        ("trust=package", "package"),
        ("trust=[package,./net.py]", "package,./net.py"),
        ("trust=7", "7"),
        ("", None),
    ],
)
def test_one_name_or_several_are_trusted(words: str, named: str | None) -> None:
    assert trusted_names(read(words.split()).get("trust")) == named


def test_a_file_whose_path_has_a_comma_is_one_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "a b,c=d"
    folder.mkdir()
    (folder / "net.py").touch()
    monkeypatch.chdir(tmp_path)
    for place in ("./a b,c=d/net.py:GRU", f"{folder}/net.py:GRU", "+./a b,c=d/net.py:GRU"):
        assert read_with_lists([f"models={place}"]) == {"models": place}
    assert read_with_lists(["models=./a b/net.py:GRU,gpt2"])["models"] == [
        "./a b/net.py:GRU",
        "gpt2",
    ]
