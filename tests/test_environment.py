"""Which Python the project takes, and which PyTorch its environment gets."""

import ast
import os
import runpy
import subprocess
import sys
import tomllib
import venv
import zipfile
from collections import namedtuple
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import nox as nox  # before another version is pretended
import pytest
from packaging.specifiers import SpecifierSet

from tests.conftest import ROOT

# As of Python's own, of which no other can be made.
Version = namedtuple("Version", ("major", "minor", "micro", "releaselevel", "serial"))
PLACES = ("core/__init__.py", "noxfile.py")
DOORS = [
    *(path for house in ("bench", "leaderboards") for path in ROOT.glob(f"{house}/*.py")),
    ROOT / "reproduce" / "__main__.py",
]


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("minor", range(9, 16))
def test_a_python_that_is_not_supported_is_told_so(
    place: str, minor: int, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    supported = SpecifierSet(project["requires-python"]).contains(f"3.{minor}")
    monkeypatch.setattr(sys, "version_info", Version(3, minor, 0, "final", 0))
    monkeypatch.setattr(sys, "version", f"3.{minor}.0 (main)")
    if supported:
        if place != "noxfile.py":  # which registers its sessions once
            runpy.run_path(str(ROOT / place))
        return
    with pytest.raises(SystemExit) as refused:
        runpy.run_path(str(ROOT / place))
    said = f"{refused.value.code}\n{capfd.readouterr().err}"
    assert (
        f"needs Python 3.11 to 3.13, and {'nox runs on' if place[0] == 'n' else 'this is'}" in said
    )
    assert f"3.{minor}.0" in said


def test_older_pythons_can_read_far_enough_to_say_so() -> None:
    for file in (*DOORS, *(ROOT / place for place in PLACES)):
        ast.parse(file.read_text(), feature_version=(3, 9))
    for house in ("bench", "leaderboards", "reproduce"):
        tree = ast.parse((ROOT / house / "__init__.py").read_text())
        imports = [n for n in ast.walk(tree) if isinstance(n, ast.Import | ast.ImportFrom)]
        # What comes before it is of Python itself, and of every version.
        names = [n.module if isinstance(n, ast.ImportFrom) else n.names[0].name for n in imports]
        first = next(i for i, name in enumerate(names) if name not in sys.stdlib_module_names)
        assert ast.unparse(imports[first]) == "import core as core"


@pytest.fixture(scope="module")
def noxfile() -> dict[str, Any]:
    return runpy.run_path(str(ROOT / "noxfile.py"))


def package(folder: Path, version: str) -> None:
    """A package index in a folder, with one torch that knows its version."""
    wheel = folder / "torch" / f"torch-{version}-py3-none-any.whl"
    wheel.parent.mkdir(parents=True)
    info = f"torch-{version}.dist-info"
    with zipfile.ZipFile(wheel, "w") as content:
        content.writestr("torch.py", f"print({version!r})")
        content.writestr(
            f"{info}/METADATA", f"Metadata-Version: 2.1\nName: torch\nVersion: {version}\n"
        )
        content.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        content.writestr(f"{info}/RECORD", "")
    (wheel.parent / "index.html").write_text(f'<a href="{wheel.name}">{wheel.name}</a>')


@pytest.fixture
def installed(
    noxfile: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., str]:
    """The version of PyTorch that an environment gets from package indices in folders."""
    names = noxfile["install_torch"].__globals__
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_INDEX_URL", (tmp_path / "default").as_uri())
    monkeypatch.setenv("PIP_NO_CACHE_DIR", "1")
    pinned = tmp_path / "constraints.txt"
    pinned.write_text("torch==2.13.0\n")
    package(tmp_path / "default", "2.13.0")

    def install(builds: str) -> str:
        monkeypatch.setitem(names, "CPU_BUILDS", (tmp_path / builds).as_uri())
        monkeypatch.setitem(names, "without_nvidia", lambda: True)
        venv.create(tmp_path / "environment", clear=True, symlinks=True)
        python = str(tmp_path / "environment" / "bin" / "python")
        pip = (sys.executable, "-m", "pip", "--python", python, "install", "--quiet")
        session = SimpleNamespace(
            log=lambda text: None, run=lambda *words, external: subprocess.run(words, check=True)
        )
        names["install_torch"](session, pip, ("-c", str(pinned)))
        told = subprocess.run([python, "-m", "torch"], capture_output=True, text=True, check=True)
        return told.stdout.strip()

    return install


@pytest.mark.processes
def test_a_machine_without_nvidia_takes_the_cpu_build_where_it_can_be_had(
    installed: Callable[..., str], tmp_path: Path
) -> None:
    package(tmp_path / "cpu", "2.13.0+cpu")
    assert installed("cpu") == "2.13.0+cpu"
    assert installed("nothing here") == "2.13.0"


@pytest.mark.parametrize(
    ("platform", "smi", "signs", "without"),
    [
        ("linux", None, (), True),
        ("linux", None, (os.devnull,), False),
        ("linux", "/usr/bin/nvidia-smi", (), False),
        ("darwin", None, (), False),
    ],
)
def test_only_linux_without_nvidia_asks_for_the_cpu_build(
    platform: str,
    smi: str | None,
    signs: tuple[str, ...],
    without: bool,
    noxfile: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    names = noxfile["without_nvidia"].__globals__
    monkeypatch.setattr(sys, "platform", platform)
    monkeypatch.setattr(names["shutil"], "which", lambda name: smi)
    monkeypatch.setitem(names, "NVIDIA", signs)
    assert names["without_nvidia"]() is without


def test_the_environment_is_made_with_its_pytorch_and_again_when_a_device_comes(
    noxfile: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The commands in their order; what they do takes minutes and a network."""
    names, asked = noxfile["build_environment"].__globals__, []

    def run(*words: Any, **_: Any) -> SimpleNamespace:
        line = [str(word) for word in (words[0] if isinstance(words[0], tuple | list) else words)]
        asked.append(line)
        if "venv" in line:
            (tmp_path / "environment").mkdir()
        return SimpleNamespace(returncode=0)

    session = SimpleNamespace(log=lambda text: None, run=run)
    monkeypatch.setitem(names, "ENVIRONMENT", tmp_path / "environment")
    monkeypatch.setitem(names, "subprocess", SimpleNamespace(run=run))
    for no_device, cpu_builds in ((True, 1), (False, 0)):
        monkeypatch.setitem(names, "without_nvidia", lambda no_device=no_device: no_device)
        asked.clear()
        names["build_environment"](session)
        torch = [line for line in asked if line[-1] == "torch"]
        assert [names["CPU_BUILDS"] in line for line in torch] == [True] * cpu_builds + [False]
        assert all("constraints.txt" in " ".join(line) for line in torch)
        (everything,) = [line for line in asked if "-e" in line]
        assert asked[0][1:3] == ["-m", "venv"]
        assert all(asked.index(line) < asked.index(everything) for line in torch)
        asked.clear()
        names["build_environment"](session)
        assert asked == []  # it is there, of the same parts


def test_data_beside_the_code_is_installed_with_it() -> None:
    """All files but records and what is made of them, which stay in a clone."""
    tools = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    patterns = tools["package-data"]
    houses = [name.rstrip("*") for name in tools["packages"]["find"]["include"]]
    of_clones = ("records", "verdicts", "verifications", "board.parquet")
    left_out = []

    def globs_of(folder: Path) -> list[str]:
        return [*patterns["*"], *patterns.get(".".join(folder.parts), ())]

    for path in (path for house in houses for path in (ROOT / house).rglob("[!.]*.*")):
        name = path.relative_to(ROOT)
        if not path.is_file() or path.suffix in (".py", ".pyc") or name.parts[1] in of_clones:
            continue
        folders = list(name.parents)[:-1]  # each is a package, with or without __init__.py
        told = [(glob, folder) for folder in folders for glob in globs_of(folder)]
        # A pattern's * stops at a slash.
        if not any(
            glob.count("/") == len(name.relative_to(folder).parts) - 1 and name.match(glob)
            for glob, folder in told
        ):
            left_out.append(str(name))
    assert not left_out, "\n".join(left_out)
