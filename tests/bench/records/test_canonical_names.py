"""The name that equal code gives a run, worked out by the settings that proofs look at."""

import json

from bench.records import equivalence
from bench.records.equivalence import Code
from bench.records.identity import _canonical_name, canonical_name
from bench.records.schema import COMMITTED, read_records


def test_the_settings_that_proofs_look_at_decide_what_a_committed_run_is_called() -> None:
    """The truth: the name by all settings."""
    table = equivalence.TABLE
    renamed = 0
    for record in read_records([COMMITTED / "multi_query_recall", COMMITTED / "babistories"]):
        code = Code.of(record.config, record.provenance)
        whole = json.dumps(record.config)
        for bitwise in (False, True):
            by_all = _canonical_name(code, whole, table, equivalence.table_changed(table), bitwise)
            assert canonical_name(record.config, record.provenance, bitwise=bitwise) == by_all
        renamed += by_all.code != code
    assert renamed  # some were made by older code
