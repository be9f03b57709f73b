"""The README's experiments against memories whose answers are known and against plain PyTorch."""

import pytest
import torch
from torch import Tensor, nn

from bench.training.building import build_measurement, model_builder
from core.progress import silent
from models.memories.interface import Memory
from models.memories.stored_in_weights import StoredInWeights
from models.memories.tables.nearest_neighbour import NearestNeighbour
from tasks.interface import Evaluation
from tasks.measurement import Refused
from tasks.test_time_memory.coding import Coding
from tasks.test_time_memory.experiments import Experiments
from tasks.test_time_memory.material import NumberSequences
from tests.configurations import compose
from tests.tasks.test_time_memory.test_test_time_memory import LastOnly

SPACE = NumberSequences(32, 0)
README = ("models=stored_in_weights", "models.vocabulary=1001", "models.loss=squared")
PLAIN = ("models.clip=null", "models.momentum=0", "models.batch_size=1")


def experiments(memory: Memory, coding: Coding | None = None, trials: int = 2) -> Experiments:
    def fresh() -> Memory:
        memory.reset()
        return memory

    generator = torch.Generator().manual_seed(0)
    return Experiments(fresh, coding or Coding(SPACE), trials, generator, "cpu")


def measured(*words: str) -> Evaluation:
    chosen = ["tasks=test_time_memory", "tasks.material=integers", "preset=smoke", "device=cpu"]
    configuration = compose([*chosen, *words])
    measurement = build_measurement(configuration)
    build = model_builder(configuration, torch.device("cpu"))
    return measurement.measure(build, "test", 0, "cpu", silent)


@pytest.mark.parametrize(("tokens", "scalars"), [(False, False), (True, False), (True, True)])
def test_numbers_come_back_from_their_own_values(tokens: bool, scalars: bool) -> None:
    coding = Coding(SPACE, tokens, scalars)
    sequences = torch.randint(0, 1000, (2, 50, 4), generator=torch.Generator().manual_seed(0))
    keys, values = coding.keys(sequences), coding.values(sequences)
    assert (keys.shape[-1], values.shape[-1]) == coding.sizes
    every = torch.ones(2, 1000, dtype=torch.bool)
    assert torch.equal(coding.numbers(values, every), sequences[..., -1])
    assert (coding.numbers(values / 0 * 0, every) == -1).all()  # NaN


def test_vectors_are_compared_with_what_was_written() -> None:
    coding, answer = Coding(SPACE), SPACE.embeddings[-1, None, [700]]
    stored = torch.zeros(1, 1000, dtype=torch.bool)
    stored[0, [3, 50, 900]] = True
    nearest = max((3, 50, 900), key=lambda k: float(answer[0, 0] @ SPACE.embeddings[-1, k]))
    assert coding.numbers(answer, stored).tolist() == [[nearest]]


def test_a_number_is_recalled_by_rounding() -> None:
    coding = Coding(SPACE, tokens=True, scalars=True)
    answers = torch.tensor([[[3.49], [3.51], [-0.4], [1e30], [torch.inf]]])
    nothing = torch.zeros(1, 1000, dtype=torch.bool)
    assert coding.numbers(answers, nothing).tolist() == [[3, 4, 0, 2**31, -1]]


def test_a_table_recalls_every_experiment() -> None:
    found = experiments(NearestNeighbour(32, 32))
    found.one()
    found.many([4, 20])
    found.stream(40)
    found.capacity([10, 30])
    found.forgetting(20)
    recalls = {k: v for k, v in found.found.metrics.items() if "recall" in k or "after" in k}
    assert len(recalls) == 8
    assert set(recalls.values()) == {1}
    assert found.found.metrics["capacity"] == 30
    assert found.headlines == dict.fromkeys(("one", "many", "stream", "capacity", "forgetting"), 1)


def test_a_memory_of_the_newest_holds_them_and_forgets_the_first() -> None:
    found = experiments(LastOnly(32, 32, kept=20))
    found.capacity([10, 20, 40])
    found.forgetting(20)
    metrics = found.found.metrics
    assert metrics["capacity"] == 20
    assert metrics["capacity_recall_40"] == pytest.approx(0.5, abs=0.03)
    assert metrics["forgetting_first_before"] == metrics["forgetting_second_after"] == 1
    assert metrics["forgetting_first_after"] == pytest.approx(0, abs=0.05)
    assert found.headlines == pytest.approx({"capacity": 0.5, "forgetting": 0.5}, abs=0.04)


def test_the_shortest_stream_has_a_question() -> None:
    for seed in range(8):
        found = experiments(NearestNeighbour(32, 32))
        found.generator.manual_seed(seed)
        found.stream(2)
        assert found.found.metrics["stream_recall"] == found.headlines["stream"] == 1


def recalled_by_plain_pytorch(sequence: Tensor, lr: float, epochs: int) -> bool:
    torch.manual_seed(1)
    embedding = nn.Embedding(1001, 8)
    head = nn.Sequential(nn.Linear(24, 128), nn.ReLU(), nn.Linear(128, 1))
    optimizer = torch.optim.SGD([*embedding.parameters(), *head.parameters()], lr=lr)
    for _ in range(epochs):
        error = (head(embedding(sequence[:3]).flatten()) - sequence[3]).square().mean()
        optimizer.zero_grad()
        error.backward()
        optimizer.step()
    answer = head(embedding(sequence[:3]).flatten())
    return bool(answer.isfinite()) and round(answer.item()) == int(sequence[3])


@pytest.mark.parametrize("last", [67, 900])
def test_one_sequence_ends_as_in_plain_pytorch(last: int) -> None:
    # Whether it diverges depends on the number that is to be memorised, and little on the draw.
    sequence, lr = torch.tensor([3, 6, 9, last]), 5e-4
    expected = recalled_by_plain_pytorch(sequence, lr, 600)
    memory = StoredInWeights(
        3, 1, vocabulary=1001, loss="squared", lr=lr, momentum=0, clip=None, batch_size=1, steps=600
    )
    coding = Coding.of(memory, SPACE)
    found = experiments(memory, coding, trials=1)
    found._sequences = lambda count: sequence[None, None]  # type: ignore[method-assign]
    with torch.no_grad():
        found.one()
    assert expected == (last == 67)
    assert found.found.metrics["one_recall"] == expected
    assert found.found.metrics["one_diverged"] == (not expected)


def test_the_network_of_the_readme_memorises_and_its_size_is_that_of_the_readme() -> None:
    training = ("models.lr=1e-5", "models.steps=2500", "models.tolerance=0.01")
    found = measured(*README, *PLAIN, *training, "tasks.experiments=[many,stream]")
    assert found.metrics["parameters"] == 8_008 + 24 * 128 + 128 + 128 + 1
    assert found.metrics["many_recall_4"] == 1
    assert found.metrics["stream_recall"] == 1


def test_an_experiment_that_diverges_is_noted_and_the_others_are_kept() -> None:
    words = ("models.lr=1e-2", "models.steps=50", 'tasks.experiments=["one","forgetting"]')
    found = measured(*README, *PLAIN, *words)
    assert found.metrics["one_recall"] == found.metrics["recall"] == 0
    assert found.metrics["one_diverged"] == found.metrics["forgetting_diverged"] == 1
    assert [cause.split(":")[0] for cause in found.arrays["diverged"]] == ["one", "forgetting"]


def test_classes_over_tokens_are_the_stable_form() -> None:
    found = measured("models=stored_in_weights", "models.vocabulary=1001")
    assert found.metrics["recall"] > 0.9
    assert not any(v for k, v in found.metrics.items() if k.endswith("_diverged"))


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("models.vocabulary=500",), "0 to 999"),
        (("models.vocabulary=1001", "tasks.material=vectors"), "tasks.material=integers"),
    ],
)
def test_a_memory_over_tokens_at_the_wrong_place_is_refused(
    words: tuple[str, ...], sentence: str
) -> None:
    with pytest.raises(Refused, match=sentence):
        measured("models=stored_in_weights", *words)


def test_vectors_and_no_other_material_have_a_slope_by_size() -> None:
    words = ("models=outer_product", "tasks.widths=[8,16,32]", "tasks.counts=[32,64]")
    found = measured(*words, "tasks.material=vectors")
    assert 0.5 < found.metrics["slope_items_by_numbers"] < 1.3
    assert found.curves["items_by_numbers"]["x"] == [64, 256, 1024]
    assert "slope_items_by_numbers" not in measured(*words, "tasks.material=numbers").metrics
