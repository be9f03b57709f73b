"""The verdict that a program asks for: of results, not of what was made to fail."""

from reproduce.claims.grammar import Number, Runs, above, within
from reproduce.claims.surface import judge
from reproduce.claims.verdicts import REPRODUCED
from tests.committed import committed_records

ACCURACY = Number("accuracy", "accuracy")
SETTINGS = {"tasks.training_automata": 2500, "tasks.variant": "held_out", "training.steps": 7200}


def test_controls_of_a_claim_are_no_results() -> None:
    records = [r for r in committed_records() if (r.task, r.preset) == ("regbench", "laptop")]
    assert any(r.role == "control" and r.model == "memory_mosaic" for r in records)
    mosaic = Runs("Memory Mosaic", model="memory_mosaic", settings=SETTINGS)
    gpt2 = Runs("GPT2", model="gpt2", settings=SETTINGS)
    assert judge(within(ACCURACY.of(mosaic), low=0.85), records).verdict == REPRODUCED
    finding = judge(above(ACCURACY.of(mosaic), ACCURACY.of(gpt2)), records)
    finals = [record for record in records if record.role == "final"]
    assert finding == judge(above(ACCURACY.of(mosaic), ACCURACY.of(gpt2)), finals)
    any_settings = within(ACCURACY.of(Runs("Memory Mosaic", model="memory_mosaic")), low=0.85)
    assert judge(any_settings, records).verdict == REPRODUCED
