"""What the terminal says of verdicts: the evidence of the files, with nothing said twice."""

import json
import re

from reproduce.console import COVERAGE, said_once
from tests.conftest import ROOT

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
