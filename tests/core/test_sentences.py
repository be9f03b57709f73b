"""What a sentence for a user may hold."""

from core.errors import MOST_SHOWN, UserError


def test_a_list_that_nobody_reads_to_its_end_is_cut() -> None:
    names = [f"kind-{number}" for number in range(300)]
    said = str(UserError(f"models: Should contain one of {', '.join(names)}: give one of them"))
    assert f", {names[MOST_SHOWN - 1]} and {300 - MOST_SHOWN} more: give one of them" in said
    assert names[MOST_SHOWN] not in said
    few = f"valid names: {', '.join(names[:50])}, and a comma, or two"
    assert str(UserError(few)) == few
