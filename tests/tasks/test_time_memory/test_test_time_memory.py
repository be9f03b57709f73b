"""The battery of test_time_memory: scores against definitions, parts against memories whose answers
are known."""

from collections.abc import Callable
from functools import cache

import numpy as np
import pytest
import torch
from torch import Tensor

from models.memories.interface import Memory, Reading
from models.memories.tables.nearest_neighbour import NearestNeighbour
from tasks.measurement import Diverged
from tasks.test_time_memory import flops, scores
from tasks.test_time_memory.battery import Battery
from tasks.test_time_memory.material import MATERIALS, Material, NumberSequences, Vectors
from tests.closeness import assert_near


class LastOnly(Memory):
    """Keeps the newest ``kept`` pairs and answers by the nearest of them."""

    def __init__(self, key_size: int, value_size: int, kept: int) -> None:
        super().__init__(key_size, value_size)
        self.kept = kept
        self.table: tuple[Tensor, ...] | None = None

    def _write(self, keys: Tensor, values: Tensor) -> None:
        old = self.table or (keys[:, :0], values[:, :0])
        self.table = tuple(
            torch.cat(pair, 1)[:, -self.kept :] for pair in zip(old, (keys, values), strict=True)
        )

    def _read(self, keys: Tensor) -> Reading:
        assert self.table is not None
        likeness = keys @ self.table[0].mT
        nearest = likeness.argmax(-1, keepdim=True)
        return Reading(torch.take_along_dim(self.table[1], nearest, 1), likeness.amax(-1))

    def _reset(self) -> None:
        self.table = None

    def size_in_bytes(self) -> int:
        return 0


def battery(fresh, material: Material | None = None, trials: int = 2) -> Battery:
    chosen = material or Vectors(32, 0)
    generator = torch.Generator().manual_seed(0)
    return Battery(lambda width: fresh(), chosen, trials, generator, "cpu")


def table() -> Battery:
    return battery(lambda: NearestNeighbour(32, 32))


def last(kept: int) -> Battery:
    return battery(lambda: LastOnly(32, 32, kept))


def test_crossing_lies_where_recall_falls() -> None:
    counts, recall = np.array([10.0, 100.0, 1000.0]), np.array([1.0, 0.8, 0.2])
    assert scores.crossing(counts, recall, 0.9) == pytest.approx(10**1.5)
    assert scores.crossing(counts, recall, 0.1) is None


def test_capacity_of_a_memory_of_known_size() -> None:
    found = last(20)
    found.capacity([10, 20, 40])
    metrics = found.found.metrics
    assert metrics["recall_10"] == metrics["recall_20"] == 1
    # Beyond, the nearest kept key gives a wrong value that may be nobody's but its own.
    assert metrics["recall_40"] == pytest.approx(0.5, abs=0.01)
    assert metrics["items_recalled_most"] == pytest.approx(20, abs=0.5)
    assert metrics["recall_oldest_quarter_most"] == pytest.approx(0, abs=0.01)
    assert metrics["recall_newest_quarter_most"] == 1


class AsWide(LastOnly):
    """Keeps as many pairs as keys are wide, and says that it keeps the square of it."""

    def __init__(self, width: int) -> None:
        super().__init__(width, width, width)

    def size_in_bytes(self) -> int:
        return 2 * 4 * self.kept**2  # of two trials


def test_the_slope_of_items_on_numbers_is_that_of_the_memory() -> None:
    generator = torch.Generator().manual_seed(0)
    found = Battery(AsWide, Vectors(32, 0), 2, generator, "cpu")
    found.scaling([8, 16, 32, 64], 512)
    curve = found.found.curves["items_by_numbers"]
    assert curve["x"] == [64, 256, 1024, 4096]
    assert curve["y"] == pytest.approx([8, 16, 32, 64], rel=0.05)
    assert found.found.metrics["slope_items_by_numbers"] == pytest.approx(0.5, abs=0.02)


def test_bits_of_a_memory_of_known_size() -> None:
    found = battery(lambda: AsWide(16))
    found.material = Vectors(16, 0)
    found.capacity([8, 16, 32])
    assert found.found.metrics["parameters"] == 256
    # At 32 the newest half is right: 16 items among twice as many candidates.
    assert found.found.metrics["bits_per_parameter"] == pytest.approx(16 * 5 / 256, rel=0.02)


def test_what_is_forgotten_is_the_oldest() -> None:
    found = last(16)
    found.recency(32)
    assert found.found.metrics["recall_oldest_quarter"] == pytest.approx(0, abs=0.01)
    assert found.found.metrics["recall_newest_quarter"] == 1


def test_the_forgetting_matrix_of_a_memory_of_one_batch() -> None:
    found = last(8)
    found.forgetting(8)
    matrix = np.array(found.found.arrays["forgetting_matrix"]["0"])
    assert np.allclose(np.diag(matrix), 1)
    assert np.allclose(matrix - np.diag(np.diag(matrix)), 0)
    assert found.found.metrics["backward_transfer"] == pytest.approx(-1, abs=0.02)
    assert found.found.metrics["final_recall"] == pytest.approx(0.25, abs=0.02)


def test_the_latest_value_is_found_by_a_table_and_collateral_is_kept() -> None:
    found = table()
    found.overwriting(16)
    found.tracking(4, 32)
    metrics = found.found.metrics
    assert metrics["overwrite_new"] == metrics["overwrite_untouched"] == 1
    assert metrics["overwrite_stale"] == 0
    assert metrics["tracking_latest"] == 1
    assert metrics["tracking_stamped"] == metrics["tracking_history"] == 1


def test_a_time_stamp_finds_what_a_sum_of_old_and_new_cannot() -> None:
    from models.memories.kernel import Kernel

    found = battery(lambda: Kernel(32, 32), trials=4)
    found.tracking(4, 32)
    assert found.found.metrics["tracking_latest"] < 0.6
    assert found.found.metrics["tracking_stamped"] > 0.95
    assert found.found.metrics["tracking_history"] > 0.95


def test_noise_leaves_the_cosine_that_it_should() -> None:
    material, generator = Vectors(512, 0), torch.Generator().manual_seed(0)
    pairs = material.pairs(1, 200, generator)
    noisy = material.corrupted(pairs, 2.0, generator)
    assert (noisy * pairs.keys).sum(-1).mean() == pytest.approx(1 / 5**0.5, abs=0.01)


def test_as_many_numbers_are_replaced_as_asked() -> None:
    material, generator = NumberSequences(64, 0, length=5), torch.Generator().manual_seed(0)
    pairs = material.pairs(2, 50, generator)
    assert_near(material.corrupted(pairs, 0.0, generator), pairs.keys, terms=64)
    one = (material.corrupted(pairs, 1.0, generator) * pairs.keys).sum(-1)
    three = (material.corrupted(pairs, 3.0, generator) * pairs.keys).sum(-1)
    assert one.mean() == pytest.approx(0.75, abs=0.05)
    assert three.mean() == pytest.approx(0.25, abs=0.05)


def test_numbers_of_a_short_stem_have_every_stored_continuation() -> None:
    found = battery(lambda: NearestNeighbour(32, 32), NumberSequences(32, 0))
    found.lengths([2, 4], 32)
    found.tricky(16)
    assert found.found.arrays["recall_by_length_and_stem"]["4,3"] > 0.9
    # Of eight first numbers among 32 sequences nearly all are ambiguous: the latest value is one of
    # several, and any of them is right.
    assert found.found.metrics["recall_ambiguous_2"] == 1
    assert found.found.curves["recall_by_stem_4"]["x"] == [1 / 3, 2 / 3, 1]
    assert found.found.metrics["exceptions_recalled"] == 1
    assert found.found.metrics["exceptions_answered_by_rule"] == pytest.approx(0, abs=0.1)


def test_ambiguous_stems_of_every_length_count() -> None:
    found = battery(lambda: LastOnly(32, 32, 20), NumberSequences(32, 0))
    asked: list[tuple[int, Tensor]] = []
    answers = found._answers

    def noted(memory: Memory, keys: Tensor, values: Tensor, labels: Tensor) -> Tensor:
        asked.append((keys.shape[1], answers(memory, keys, values, labels)))
        return asked[-1][1]

    found._answers = noted  # type: ignore[method-assign]
    found.lengths([4], 32)
    generator = torch.Generator().manual_seed(0)
    drawn = torch.randint(0, 8, (2, 32, 4), generator=generator)
    drawn[..., -1] = torch.randint(0, 1000, (2, 32), generator=generator)
    right = []
    for stem, (_, answered) in enumerate(asked, 1):
        for trial in range(2):
            sequences = [tuple(row) for row in drawn[trial].tolist()]
            for item, sequence in enumerate(sequences):
                fits = {other[-1] for other in sequences if other[:stem] == sequence[:stem]}
                if len(fits) > 1:
                    right.append(int(answered[trial, item]) in fits)
    assert len(right) > 64  # more than the shortest stem alone has
    assert found.found.metrics["recall_ambiguous_4"] == pytest.approx(np.mean(right))
    assert np.mean(right) < 1


def test_the_last_event_asks_if_no_other_does() -> None:
    from tasks.test_time_memory.coins import coins

    drawn = [coins(3, torch.Generator().manual_seed(seed)) for seed in range(50)]
    assert {tuple(events) for events in drawn} == {
        (True, True, False),
        (True, False, True),
        (True, False, False),
    }


@cache
def material(kind: str) -> Material:
    """Of one kind: text takes seconds, in which its projections are learned."""
    return MATERIALS[kind](32, 0)


def test_learned_keys_know_a_sentence_with_missing_words() -> None:
    text, generator = material("text"), torch.Generator().manual_seed(0)
    pairs = text.pairs(1, 100, generator)
    noisy = text.corrupted(pairs, 0.4, generator)
    found = (noisy[0] @ pairs.keys[0].T).argmax(-1)
    assert (found == torch.arange(100)).float().mean() > 0.8
    between = (pairs.keys[0] @ pairs.keys[0].T)[~torch.eye(100, dtype=torch.bool)]
    assert between.abs().mean() < 0.4  # the projections did not send all text to one direction


@pytest.mark.parametrize("kind", MATERIALS)
@pytest.mark.bitwise
def test_pairs_are_a_function_of_the_generator(kind: str) -> None:
    one, other = (
        drawn.pairs(2, 8, torch.Generator().manual_seed(5))
        for drawn in (material(kind), MATERIALS[kind](32, 0))
    )
    assert torch.equal(one.keys, other.keys)
    assert torch.equal(one.values, other.values)
    assert_near(one.keys.norm(dim=-1), torch.ones(2, 8), terms=one.keys.shape[-1])


def test_flops_are_those_of_two_matrix_products() -> None:
    from models.memories.outer_product import OuterProduct

    found = battery(lambda: OuterProduct(32, 32), trials=1)
    found.cost()
    assert found.found.metrics["write_flops"] == 2 * 32 * 32
    assert found.found.metrics["read_flops"] == 2 * 32 * 32


def test_stored_pairs_grow_with_each_item_and_a_matrix_does_not() -> None:
    from models.memories.kernel import Kernel
    from models.memories.outer_product import OuterProduct

    growing, fixed = battery(lambda: Kernel(32, 32)), battery(lambda: OuterProduct(32, 32))
    for found in (growing, fixed):
        found.capacity([8, 16, 64])
    numbers = 4 * (32 + 32)  # bytes of a key and its value
    assert growing.found.metrics["write_bytes"] == numbers
    assert growing.found.curves["bytes_by_count"]["y"] == [8 * numbers, 16 * numbers, 64 * numbers]
    assert fixed.found.metrics["write_bytes"] == 0


def test_steps_of_an_optimiser_inside_a_write_are_counted() -> None:
    from models.memories.outer_product import OuterProduct
    from models.memories.stored_in_weights import StoredInWeights

    settings = {"steps": 6, "check_every": 100, "batch_size": 4, "loss": "squared", "tolerance": 0}
    trained = battery(lambda: StoredInWeights(32, 32, lr=1e-3, **settings))
    closed = battery(lambda: OuterProduct(32, 32))
    for found in (trained, closed):
        found.cost()
    steps = 6 * 16 / 4  # passes over all sixteen items
    assert trained.found.metrics["write_optimiser_steps"] == steps
    assert closed.found.metrics["write_optimiser_steps"] == 0


def counted(act: Callable[[], object]) -> int:
    from torch.utils.flop_counter import FlopCounterMode

    with FlopCounterMode(display=False, custom_mapping=flops.formulas()) as counter:
        act()
    return counter.get_total_flops()


def eliminated(size: int, columns: int) -> int:
    """Operations of Gaussian elimination and back substitution, counted one by one."""
    operations = 0
    for pivot in range(size):
        for _ in range(pivot + 1, size):
            operations += 1 + 2 * (size - pivot - 1) + 2 * columns
    for row in range(size):
        operations += columns * (2 * (size - row - 1) + 1)
    return operations


def test_flops_of_linear_systems_are_those_of_their_algorithms() -> None:
    n, columns, batch = 60, 7, 3
    square = torch.randn(batch, n, n, generator=torch.Generator().manual_seed(0))
    system, right = square @ square.mT + torch.eye(n), torch.ones(batch, n, columns)
    solved = counted(lambda: torch.linalg.solve(system, right))
    assert solved == pytest.approx(batch * eliminated(n, columns), rel=0.03)
    assert counted(lambda: torch.linalg.solve(system, right[..., 0])) == pytest.approx(
        batch * eliminated(n, 1), rel=0.03
    )
    factor = torch.linalg.cholesky(system)
    by_columns = batch * sum(2 * row + 1 for row in range(n)) * columns  # forward substitution
    triangle = counted(lambda: torch.linalg.solve_triangular(factor, right, upper=False))
    assert triangle == pytest.approx(by_columns, rel=0.001)
    assert counted(lambda: torch.cholesky_solve(right, factor)) == 2 * triangle
    pivots = batch * sum((2 * k + 1) * (n - k) for k in range(n))  # each entry: k products, k sums
    assert counted(lambda: torch.linalg.cholesky(system)) == pytest.approx(pivots, rel=0.05)


def test_reading_by_ridge_counts_its_system() -> None:
    from models.memories.ridge import Ridge

    found = battery(lambda: Ridge(32, 32), trials=1)
    found.cost()
    products = 2 * 32 * 32  # of the solution with what was stored
    assert found.found.metrics["read_flops"] == flops.solving(32, 1) + products


def test_a_table_answers_a_rewritten_number_with_its_new_value_whatever_the_numbers_are() -> None:
    material = NumberSequences(32, 0)
    for seed in range(5):
        found = battery(lambda: NearestNeighbour(32, 32), material, trials=8)
        found.generator.manual_seed(seed)
        found.overwriting(64)
        assert found.found.metrics["overwrite_new"] == 1


def test_a_memory_that_answers_nonsense_has_no_number() -> None:
    class Broken(LastOnly):
        def _read(self, keys: Tensor) -> Reading:
            values, confidence = super()._read(keys)
            return Reading(values / 0, confidence)

    found = battery(lambda: Broken(32, 32, 8))
    for part in (lambda: found.recency(8), lambda: found.noise(8), lambda: found.abstention(8)):
        with pytest.raises(Diverged, match="not finite"):
            part()
    assert found.found.metrics.keys() <= {"auroc"}  # its confidence is in order
