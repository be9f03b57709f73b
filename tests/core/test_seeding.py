"""Promise 1, for the engine: derived seeds depend on names alone."""

from hypothesis import given
from hypothesis import strategies as st

from core.seeding import derive_seed
from tests.conftest import Command


def test_equal_in_other_processes_with_other_hash_seeds(run_command: Command) -> None:
    code = "from core.seeding import derive_seed; print(derive_seed(0, 'dropout', 3))"
    seen = {
        run_command("-c", code, env={"PYTHONHASHSEED": hash_seed}).stdout.strip()
        for hash_seed in ("0", "1", "random")
    }
    assert seen == {str(derive_seed(0, "dropout", 3))} == {"6120161286404589879"}


@given(st.integers(0, 2**32 - 1), st.integers(0, 10**6))
def test_in_range_and_different_along_every_axis(seed: int, step: int) -> None:
    values = {
        derive_seed(seed, "dropout", step),
        derive_seed(seed, "dropout", step + 1),
        derive_seed(seed + 1, "dropout", step),
        derive_seed(seed, "batch", step),
    }
    assert len(values) == 4
    assert all(0 <= value < 2**63 for value in values)
