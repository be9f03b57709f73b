"""Commands that name what does their work: the names are right, and nothing is imported early."""

import ast
import inspect
from pathlib import Path

import pytest

from core.errors import UserError
from core.files import ROOT
from core.words import by_name, command_line

HOUSES = ("bench", "core", "leaderboards", "reproduce")


def names_in_calls_of(function: str) -> list[str]:
    """Every "module:function" that this project's code gives to ``command_line`` or ``by_name``."""
    names = []
    for house in HOUSES:
        for path in sorted((ROOT / house).rglob("*.py")):
            source = path.read_text()
            if f"{function}(" not in source:  # parsing all files takes seconds of each worker
                continue
            for node in ast.walk(ast.parse(source)):
                if isinstance(node, ast.Call) and ast.unparse(node.func) == function:
                    texts = [a.value for a in node.args if isinstance(a, ast.Constant)]
                    names += [text for text in texts if isinstance(text, str) and ":" in text]
    assert names, function
    return names


@pytest.mark.parametrize("name", names_in_calls_of("by_name"))
def test_what_is_called_by_its_name_is_there(name: str) -> None:
    assert callable(by_name(name))


@pytest.mark.parametrize("name", names_in_calls_of("command_line"))
def test_the_step_of_a_command_is_there_and_takes_one_value(name: str) -> None:
    step = by_name(name)
    needed = [
        parameter
        for parameter in inspect.signature(step).parameters.values()
        if parameter.default is parameter.empty and parameter.kind != parameter.VAR_POSITIONAL
    ]
    assert len(needed) == 1, name


def test_help_takes_no_step_and_a_mistake_imports_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "work_of_a_command.py").write_text(
        "print('imported')\ndef double(number): return 2 * number\n"
    )
    monkeypatch.syspath_prepend(tmp_path)

    def number_of(words: list[str]) -> int:
        if not words[0].isdecimal():
            raise UserError(f"{words[0]} is no number")
        return int(words[0])

    main = command_line("usage: …", number_of, "work_of_a_command:double", abs)
    assert main(["--help"]) == 0
    with pytest.raises(UserError, match="is no number"):
        main(["three"])
    assert capsys.readouterr().out == "usage: …\n"
    assert main(["3"]) == 6
    assert capsys.readouterr().out == "imported\n"
