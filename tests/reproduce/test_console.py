"""What the terminal says of verdicts: the evidence of the files, with nothing said twice; and
what is imported for it."""

import json
import re

from core.errors import OK
from reproduce.console import COVERAGE, said_once
from tests.conftest import ROOT, Command

ENDS = re.compile(r"-?\d[\d.]* to -?\d[\d.]*\)")


def test_what_an_interval_covers_is_said_at_the_first_of_several() -> None:
    over = "95% interval over seeds and 100 test sequences"
    evidence = (
        f"LSTM minus GPT2: +0.1 ({over} 0.05 to 0.15); LSTM minus S4D: -0.2 ({over} -0.3 to -0.1); "
        "GPT2 alone 0.5 (95% interval 0.4 to 0.6); and 0.7 (95% interval 0.6 to 0.8)"
    )
    assert said_once(evidence) == (
        f"LSTM minus GPT2: +0.1 ({over} 0.05 to 0.15); LSTM minus S4D: -0.2 (-0.3 to -0.1); "
        "GPT2 alone 0.5 (95% interval 0.4 to 0.6); and 0.7 (0.6 to 0.8)"
    )


def test_evidence_of_every_committed_verdict_keeps_its_numbers_and_says_nothing_twice() -> None:
    shortened = 0
    for path in (ROOT / "leaderboards" / "verdicts").glob("*.json"):
        for claim in json.loads(path.read_text())["claims"]:
            evidence = claim["evidence"]
            said = said_once(evidence)
            assert ENDS.findall(said) == ENDS.findall(evidence)
            assert set(COVERAGE.findall(said)) == set(COVERAGE.findall(evidence))
            shortened += said != evidence
    assert shortened > 10


def test_a_figure_that_is_named_is_imported_alone(run_command: Command) -> None:
    script = (
        "import sys; from reproduce.__main__ import reproductions; "
        "assert list(reproductions('figure5')) == ['figure5']; "
        "assert not [name for name in sys.modules if name.startswith('reproduce.stories.')]; "
        "assert list(reproductions('runs')) == list(reproductions('nothing')) == "
        "list(reproductions()); assert len(reproductions()) > 50"
    )
    done = run_command("-c", script)
    assert done.returncode == OK, done.stderr
