"""A figure of committed records on a machine that has none of their text and no network."""

import json
import re
from pathlib import Path

import pytest

from bench.config import network
from core.errors import OK
from reproduce.__main__ import main
from tests.conftest import ROOT


@pytest.mark.parametrize("words", [[], ["corpus=tinystories_sample"]])
def test_committed_records_are_shown_where_their_text_is_not(
    words: list[str], tmp_path: Path, capsys, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(network.OFFLINE, "1")
    assert main(["figure16", "preset=laptop", *words, f"store={tmp_path}"]) == OK
    shown = capsys.readouterr()
    first, *_, totals, _, _ = shown.out.splitlines()
    assert first.startswith("The text of the committed records is not on this machine")
    assert "committed=false corpus=tinystories_sample" in first
    assert totals == "1 reproduced, 0 contradicted, 0 not enough evidence"
    assert shown.out.count("corpus: tinystories_sample (https://huggingface.co/") == 1
    assert shown.err == ""
    assert [path.name for path in tmp_path.iterdir()] == ["reproductions"]
    assert (tmp_path / "reproductions" / "figure16" / "laptop" / "figure.png").is_file()


def test_what_contradicts_the_source_is_told_first(tmp_path: Path, capsys, monkeypatch) -> None:
    monkeypatch.setenv(network.OFFLINE, "1")
    assert main(["figure8", "preset=laptop", f"store={tmp_path}"]) == OK
    told = re.findall(
        r"^(reproduced|contradicted|not enough evidence)  \S", capsys.readouterr().out, re.MULTILINE
    )
    committed = json.loads((ROOT / "leaderboards" / "verdicts" / "figure8-laptop.json").read_text())
    verdicts = [claim["verdict"] for claim in committed["claims"]]
    assert verdicts[0] != "contradicted"  # in the order of the claims
    assert told == sorted(verdicts, key=lambda verdict: verdict != "contradicted")
