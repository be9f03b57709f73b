"""One thing is not several."""

from core.amounts import amount


def test_amounts() -> None:
    assert [amount(count, "new record") for count in (0, 1, 2)] == [
        "0 new records",
        "1 new record",
        "2 new records",
    ]
    assert amount(1, "run was", "runs were") == "1 run was"
    assert amount(3, "run was", "runs were") == "3 runs were"
