"""Programs of a person's own that sweep, with and without ``if __name__ == "__main__":``."""

from pathlib import Path

import pytest

from tests.conftest import Command

# Ten runs, from which on a sweep at smoke has workers of its own accord where there are two cores.
SWEEP = """
from bench import run_sweep

rates = [1e-3 * (1 + number) for number in range(9)]
settings = {"training.steps": 1, "training.batch_size": 2, "tasks.test_size": 4, "device": "cpu"}
settings |= {"tasks.validation_size": 4, "sweep.search_space": {"training.lr": rates}}
"""
GUARD = 'if __name__ == "__main__":'
CALL = """
made = run_sweep("multi_query_recall", "lstm", seeds=1, settings=settings, quiet=True)
print(*(record.model for record in made if record.role == "final"))
"""


def told(run_command: Command, folder: Path, text: str, *words: str) -> tuple[int, str, str]:
    (folder / "script.py").write_text(text)
    done = run_command(*(words or ("script.py",)), cwd=folder)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.long
def test_a_plain_script_sweeps_in_its_own_process(run_command: Command, tmp_path: Path) -> None:
    code, shown, said = told(run_command, tmp_path, f"{SWEEP}{CALL}")
    assert (code, shown.strip()) == (0, "lstm"), said
    assert "Traceback" not in said
    assert len(said.splitlines()) <= 1  # none on a machine with one core
    if said:
        assert f"one at a time: script.py, line 8, is not below `{GUARD}`" in said


@pytest.mark.parametrize(
    ("setting", "call"),
    [
        ('"workers": 2', "run_sweep('multi_query_recall', 'lstm', settings=settings)"),
        ('"workers": 2', "(lambda: run_sweep('multi_query_recall', 'lstm', settings=settings))()"),
        (
            '"training.devices": 2',
            "settings.pop('sweep.search_space') and bench.run('multi_query_recall', 'lstm', "
            "settings=settings)",
        ),
    ],
)
def test_a_script_that_its_workers_would_run_again_is_told_the_line(
    run_command: Command, tmp_path: Path, setting: str, call: str
) -> None:
    text = f"import bench\n{SWEEP}\nsettings |= {{{setting}}}\n{call}\n"
    code, _, said = told(run_command, tmp_path, text)
    assert code == 1  # an exception that nobody has caught
    assert said.count("Traceback") == 1
    sentence = said.splitlines()[-1]
    assert "each would run script.py, line 10, again: put what stands there below" in sentence
    assert GUARD in sentence
    assert not list(tmp_path.glob("runs/*/*.json"))  # before anything is trained


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("ask()", "script.py, line 4"),
        ("def main():\n    ask()\n\nmain()", "script.py, line 7"),
        ("if __name__ == '__main__':\n    ask()", "None"),
        ("if '__main__' == __name__ and True:\n    def main():\n        ask()\n    main()", "None"),
        ("with open(__file__):\n    if __name__ == '__main__':\n        ask()", "None"),
        ("if __name__ != 'other':\n    ask()", "script.py, line 5"),
        ("if __name__ == '__main__':\n    pass\nask()", "script.py, line 6"),
        ("if __name__ == '__main__':\n    pass\nelse:\n    pass\nask()", "script.py, line 8"),
    ],
)
@pytest.mark.parametrize("words", [("script.py",), ("-m", "script")])
def test_what_stands_below_the_line_is_known(
    run_command: Command, tmp_path: Path, text: str, place: str, words: tuple[str, ...]
) -> None:
    begin = "from core.processes import unguarded_call\ndef ask():\n    print(unguarded_call())\n"
    code, shown, said = told(run_command, tmp_path, begin + text + "\n", *words)
    assert (code, shown.strip()) == (0, place), said


def test_a_program_without_a_file_has_nothing_that_runs_again(
    run_command: Command, tmp_path: Path
) -> None:
    asked = "from core.processes import unguarded_call; print(unguarded_call())"
    assert told(run_command, tmp_path, "", "-c", asked)[:2] == (0, "None\n")
    package = tmp_path / "package"
    package.mkdir()
    (package / "__main__.py").write_text(asked)
    assert told(run_command, tmp_path, "", "-m", "package")[:2] == (0, "None\n")
