"""Every command of the README is executed here, with fewer steps where it takes long.

The commands are read from the README itself, and those of a nox session from the noxfile: a new
command is run as it stands, and one of an unknown form fails.
"""

import ast
import re
import runpy
import shlex
import signal
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from tests.conftest import ROOT

README = (ROOT / "README.md").read_text()
BLOCKS = re.compile(r"^```\n(.*?)^```$", re.DOTALL | re.MULTILINE)
MODEL = re.compile(r"^```python\n# (\S+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
INLINE = re.compile(r"`((?:python|nox|pip|source) [^`]+)`")

RECORDS = ROOT / "leaderboards" / "records"
SMALL = ["tasks.training_automata=8", "tasks.validation_size=4", "tasks.test_size=4"]
SMALL += ["tasks.strings=[2,3]", "tasks.string_length=[1,6]"]
SHORT = ["training.steps=2", "training.warmup_steps=1", "training.batch_size=2", *SMALL]
# What makes a command cheap; all its own words stay, and the last of a key counts.
ADDED = {
    "bench.train": SHORT,
    "bench.sweep": [*SHORT, "n_trials=1", "seeds=1"],
    "reproduce": [f"records={RECORDS}"],
    "reproduce evidence": ["figures=figure5", "preset=smoke"],
    "leaderboards.build": [f"records={RECORDS / 'three_moons'}"],
    "pytest": [
        "-n",
        "0",
        "-p",
        "no:cacheprovider",
        str(ROOT / "tests/core/test_seeding.py"),
    ],
    "leaderboards.serve": ["port=0"],
}
PREFIX = {"python": [], "run_pytest": ["-m", "pytest"]}  # the functions of the noxfile


def commands_of(text: str) -> list[str]:
    """Every command of a page, in code blocks and within sentences, without its remark."""
    prose = re.sub(r"<!--.*?-->", "", BLOCKS.sub("", text), flags=re.DOTALL)
    lines = [line for block in BLOCKS.findall(text) for line in block.splitlines()]
    found = [*(line.partition(" #")[0] for line in lines), *INLINE.findall(prose)]
    parts = [part.strip() for command in found for part in command.split("&&")]
    return list(dict.fromkeys(part for part in parts if part))


def modules_of(command: str) -> list[list[str]]:
    """What a command runs, as the words behind ``python -m``; those of a session one by one."""
    words = shlex.split(command)
    if words[:2] == ["python", "-m"]:
        return [words[2:]]
    assert words[:2] == ["nox", "-s"], f"a test must learn how to execute: {command}"
    name, given = words[2], words[4:]
    assert words[3:4] in ([], ["--"])
    if name.startswith("reproduce_"):
        return [["reproduce", name.removeprefix("reproduce_"), *given]]
    return [[*module, *given] for module in session_modules(name)]


def session_modules(name: str) -> list[list[str]]:
    """The modules that a session of the noxfile runs, from its source."""
    tree = ast.parse((ROOT / "noxfile.py").read_text())
    functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    assert name in functions, f"there is no session {name}"
    found = []
    for call in ast.walk(functions[name]):
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name):
            constants = [str(a.value) for a in call.args if isinstance(a, ast.Constant)]
            if call.func.id in PREFIX:
                found.append([*PREFIX[call.func.id], *constants][1:])
    assert found, f"the session {name} runs nothing"
    return found


def execute(words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """``python -m`` these words, which must end with exit code 0."""
    module = words[0]
    added = ADDED.get(" ".join(words[:2]), ADDED.get(module, []))
    if words == ["reproduce"]:
        added = []
    if module == "leaderboards.serve":
        serve([*words, *added])
    elif module == "pytest":  # not in this process, which is one
        command = [sys.executable, "-m", *words, *added]
        subprocess.run(command, cwd=ROOT, check=True, timeout=600)
    else:
        monkeypatch.setattr(sys, "argv", [*words, *added])
        for name in ("stdout", "stderr"):  # the command replaces them
            monkeypatch.setattr(sys, name, getattr(sys, name))
        with pytest.raises(SystemExit) as ended:
            runpy.run_module(module, run_name="__main__")
        assert ended.value.code == 0


def serve(words: list[str]) -> None:
    """Start the leaderboard, wait for its address, and stop it."""
    command = [sys.executable, "-u", "-m", *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            assert any("open http://localhost:" in line for line in server.stdout)
        finally:
            server.send_signal(signal.SIGTERM)


INSTALLS = "python -m pip install nox"  # by CI on each fresh clone: a test has no network
ACTIVATES = "source .env-3.11/bin/activate"


@pytest.mark.processes
@pytest.mark.filterwarnings("ignore:.*found in sys.modules.*:RuntimeWarning")
@pytest.mark.parametrize(
    "command", [name for name in commands_of(README) if name not in (INSTALLS, ACTIVATES)]
)
def test_a_command_of_the_readme_runs(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    command = command.replace("$PWD", str(tmp_path))
    ((name, source),) = MODEL.findall(README)
    if name in command:
        (tmp_path / name).write_text(source)
        monkeypatch.setattr(sys, "path", [*sys.path])
        monkeypatch.delitem(sys.modules, Path(name).stem, raising=False)
    if "run=ID" in command:  # of the run that the README makes before
        training = next(line for line in commands_of(README) if "bench.train" in line)
        execute(modules_of(training)[0], monkeypatch)
        run = next(path.stem for path in (tmp_path / "runs" / "records").glob("*memory_mosaic*"))
        command = command.replace("ID", run)
    for words in modules_of(command):
        execute(words, monkeypatch)


def test_the_model_of_the_readme_is_short() -> None:
    ((_, source),) = MODEL.findall(README)
    lines = ["# net.py", *filter(str.strip, source.splitlines())]
    assert len(lines) <= 12


def test_the_two_commands_of_the_readme_are_what_ci_runs() -> None:
    ci = (ROOT / ".ci" / "run").read_text()
    assert f"{INSTALLS} && nox -s quickstart" in README
    assert "nox -s tests" in commands_of(README)
    assert "pip install --quiet nox" in ci
    assert "nox -s tests" in ci
    assert "nox -s long_tests" in ci  # what the first leaves out for its length


def test_the_environment_is_activated_as_the_readme_says(tmp_path: Path) -> None:
    assert ACTIVATES in commands_of(README)
    assert (
        '".env-{sys.version_info.major}.{sys.version_info.minor}"'
        in (ROOT / "noxfile.py").read_text()
    )
    venv.create(tmp_path / ".env-3.11")
    line = f"{ACTIVATES} && python -c 'import sys; print(sys.prefix)'"
    done = subprocess.run(
        ["bash", "-c", line], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == str(tmp_path / ".env-3.11")


def test_a_command_that_no_test_knows_fails() -> None:
    assert commands_of("```\nmake all   # everything\n```\nor `nox -s tests`.") == [
        "make all",
        "nox -s tests",
    ]
    with pytest.raises(AssertionError, match="must learn how to execute: make all"):
        modules_of("make all")
    with pytest.raises(AssertionError, match="no session missing"):
        modules_of("nox -s missing")
