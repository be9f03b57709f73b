"""A model that a call changes is called once a step, also where a task groups lengths."""

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.parametrizations import spectral_norm

from bench.examination.examination import examine
from bench.training.compiled import with_padded_batches
from bench.training.flops import count_training_flops
from bench.training.loop import fit
from bench.training.training import training_loss_of
from models.gpt2 import GPT2
from models.specification import SequenceSpecification
from tasks.interface import Batch, Task
from tasks.mad import Mad
from tasks.regbench import RegBench
from tests.bench.training.test_parallel import settings

STEPS, SIZE, WIDTH = 6, 7, 8
CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def task() -> RegBench:
    return RegBench(
        training_automata=40,
        validation_size=5,
        test_size=5,
        strings=(2, 6),
        string_length=(1, 30),
        protocol="as_released",  # unsorted, so that a batch has several groups
    )


class Plain(nn.Module):
    """A GRU between an embedding and the scores; the number of its calls in training is known."""

    def __init__(self, specification: SequenceSpecification) -> None:
        super().__init__()
        assert specification.vocabulary is not None
        self.embedding = nn.Embedding(specification.vocabulary, WIDTH)
        self.mixer = nn.GRU(WIDTH, WIDTH, batch_first=True)
        self.scores = nn.Linear(WIDTH, specification.output_size)
        self.training_calls = 0  # no tensor, and no output depends on it

    def forward(self, inputs: Tensor) -> Tensor:
        if self.training:
            self.training_calls += 1
            self.change()
        return self.read_out(self.mixer(self.embedding(inputs))[0])

    def change(self) -> None:
        """What a call in training does to the model."""

    def read_out(self, vectors: Tensor) -> Tensor:
        scores: Tensor = self.scores(vectors)
        return scores


class Redraws(Plain):
    """Random features that are drawn again every few calls, as a Performer's are."""

    def __init__(self, specification: SequenceSpecification) -> None:
        super().__init__(specification)
        self.register_buffer("projection", torch.randn(WIDTH, WIDTH))
        self.register_buffer("calls", torch.zeros((), dtype=torch.long))

    def change(self) -> None:
        if self.calls % 5 == 0:
            self.projection.copy_(torch.randn_like(self.projection))
        self.calls += 1

    def read_out(self, vectors: Tensor) -> Tensor:
        return super().read_out((vectors @ self.projection).exp())


class LimitedEmbeddings(Plain):
    """``max_norm``: rows that are read are shortened in place; the scores use the same weights."""

    def __init__(self, specification: SequenceSpecification) -> None:
        super().__init__(specification)
        self.embedding.max_norm = 1.0
        if specification.output_size == specification.vocabulary:
            self.scores.weight = self.embedding.weight


class Clamped(Plain):
    def change(self) -> None:
        with torch.no_grad():
            self.scores.weight.clamp_(-1e6, 1e6)  # which is written, though it changes no number


class ClampedPastAutograd(Plain):
    def change(self) -> None:
        self.scores.weight.data.clamp_(-0.1, 0.1)


class PowerIteration(Plain):
    def __init__(self, specification: SequenceSpecification) -> None:
        super().__init__(specification)
        self.scores = spectral_norm(self.scores)


class Codebook(Plain):
    """An average that moves with what is seen, given to a new tensor each time."""

    def __init__(self, specification: SequenceSpecification) -> None:
        super().__init__(specification)
        self.register_buffer("mean", torch.zeros(WIDTH))

    def read_out(self, vectors: Tensor) -> Tensor:
        if self.training:
            self.mean = 0.9 * self.mean + 0.1 * vectors.detach().mean((0, 1))
        return super().read_out(vectors - self.mean)


class GrownCache(Plain):
    """Numbers of positions, made at the first call and again where a sequence is longer."""

    def __init__(self, specification: SequenceSpecification) -> None:
        super().__init__(specification)
        self.register_buffer("places", None, persistent=False)

    def read_out(self, vectors: Tensor) -> Tensor:
        length = vectors.shape[1]
        if self.places is None or len(self.places) < length:
            self.places = torch.arange(length).cos()
        return super().read_out(vectors * self.places[:length, None])


class Hidden(Codebook):
    """Offers its vectors, so that a task of text asks for no scores of a large vocabulary."""

    @property
    def output_matrix(self) -> Tensor:
        return self.scores.weight

    def hidden(self, inputs: Tensor) -> Tensor:
        vectors = self.mixer(self.embedding(inputs))[0]
        self.mean = 0.9 * self.mean + 0.1 * vectors.detach().mean((0, 1))
        return vectors - self.mean


CHANGING = [Redraws, LimitedEmbeddings, Clamped, ClampedPastAutograd, PowerIteration, Codebook]


def trained(model: nn.Module, task: Task, folder: Path) -> None:
    fit(
        model,
        task,
        settings(steps=STEPS, batch_size=SIZE),
        seed=3,
        device=CPU,
        checkpoint=folder / "checkpoint.pt",
    )


@pytest.mark.parametrize(("kind", "multiple"), [*((kind, 1) for kind in CHANGING), (Redraws, 8)])
def test_a_model_that_changes_is_called_once_a_step(
    kind: type[Plain], multiple: int, task: RegBench, tmp_path: Path
) -> None:
    torch.manual_seed(0)
    model, counted = kind(task.specification()), kind(task.specification()).train()
    padded = with_padded_batches(task, multiple) if multiple > 1 else task
    loss = training_loss_of(padded, counted, 3, SIZE)
    count_training_flops(counted, padded.training_batch(3, 1, SIZE), loss)
    trained(model, padded, tmp_path)
    # Before the first step it is asked whether a call changes it; the count of those calls stands
    # beside a buffer in some kinds, and is put back with it.
    asked_before = model.training_calls - STEPS
    assert 0 <= asked_before <= SIZE


@pytest.mark.bitwise
@pytest.mark.parametrize("kind", CHANGING)
def test_its_loss_is_that_of_one_pass_over_the_batch(kind: type[Plain], task: RegBench) -> None:
    torch.manual_seed(0)
    model = kind(task.specification()).train()
    batch = task.training_batch(3, 2, SIZE)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    state = torch.get_rng_state()
    loss = training_loss_of(task, model, 3, SIZE)
    assert torch.equal(torch.get_rng_state(), state)
    for name, tensor in model.state_dict().items():
        assert torch.equal(tensor, before[name]), name
    ours = loss(model, batch)
    torch.set_rng_state(state)
    model.load_state_dict(before)
    assert torch.equal(ours, task.loss(model(batch.inputs), batch))


@pytest.mark.parametrize("kind", [Plain, GrownCache, GPT2])
def test_models_that_stay_as_they_are_compute_no_padding(
    kind: type[nn.Module], task: RegBench
) -> None:
    torch.manual_seed(0)
    sizes = {"width": WIDTH, "layers": 1, "heads": 1} if kind is GPT2 else {}
    model = kind(task.specification(), **sizes).train()
    loss = training_loss_of(task, model, 3, SIZE)
    seen: list[int] = []
    model.register_forward_pre_hook(lambda module, inputs: seen.append(inputs[0].numel()))
    batch = task.training_batch(3, 0, SIZE)
    loss(model, batch)
    assert len(seen) > 1
    assert sum(seen) < batch.inputs.numel()


def test_a_batch_of_one_length_does_not_hide_that_others_have_several(task: RegBench) -> None:
    torch.manual_seed(0)
    model = Codebook(task.specification()).train()
    loss = training_loss_of(task, model, 3, 1)  # of one sequence, which is one call
    before = model.training_calls
    loss(model, task.training_batch(3, 0, SIZE))
    assert model.training_calls == before + 1


def test_scores_of_a_large_vocabulary_are_not_asked_for_anew() -> None:
    task = Mad(synthetic="compression", training_examples=4, validation_size=2, test_size=2)
    model = Hidden(task.specification()).train()
    assert training_loss_of(task, model, 0, 2) == task.training_loss
    assert model.training_calls == 0


@pytest.mark.parametrize(
    ("kind", "changes"), [(Plain, False), (GrownCache, False), (Clamped, True), (Redraws, True)]
)
def test_the_examination_tells_stacks_what_a_call_changes(
    kind: type[Plain], changes: bool, task: RegBench
) -> None:
    torch.manual_seed(0)
    model, inputs = kind(task.specification()), task.training_batch(0, 0, SIZE).inputs
    assert examine(model, task.specification(), inputs).changes == changes


class TwoViews(RegBench):
    """Somebody's task, which asks for two answers on purpose."""

    def training_loss(self, model: nn.Module, batch: Batch) -> Tensor:
        first, second = model(batch.inputs), model(batch.inputs)
        return self.loss(first, batch) + (first - second).square().mean()


@pytest.mark.bitwise  # both make the same operations
def test_what_a_task_of_somebody_else_trains_on_is_left_to_it() -> None:
    task = TwoViews(training_automata=9, validation_size=1, test_size=1, strings=(2, 3))
    model = Codebook(task.specification()).train()
    batch = task.training_batch(0, 0, 3)
    state = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    ours = training_loss_of(task, model, 0, 3)(model, batch)
    model.load_state_dict(state)
    assert torch.equal(ours, task.training_loss(model, batch))
