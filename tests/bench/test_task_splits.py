"""Tasks of somebody else whose data change while they are used, or whose splits share sequences."""

import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

from bench import train
from bench.examination.splits import refuse_shared_sequences
from bench.records.schema import RunRecord, read_records
from core.errors import OK, UserError
from tasks.generated import GeneratedTask

FILE = """
import numpy as np
from tasks.generated import GeneratedTask

CALLS = [0]


class Honest(GeneratedTask):
    vocabulary, length = 16, 24
    presets = {"smoke": {"training": {"steps": 30, "batch_size": 8}, "models": {"width": 8}}}

    def draw(self, generator, count):
        tokens = self.numbers(generator, count)
        return tokens, tokens[:, :1].repeat(self.length, axis=1)

    def numbers(self, generator, count):
        return generator.integers(0, 16, (count, self.length))


class EasierLater(Honest):
    '''From the twentieth call on, every token is the first one.'''

    calls = 0

    def numbers(self, generator, count):
        self.calls += 1
        tokens = super().numbers(generator, count)
        return tokens if self.calls <= 20 else tokens[:, :1].repeat(self.length, axis=1)


class EasierLaterEverywhere(Honest):
    '''The same, counted in the module.'''

    def numbers(self, generator, count):
        CALLS[0] += 1
        tokens = super().numbers(generator, count)
        return tokens if CALLS[0] <= 70 else tokens[:, :1].repeat(self.length, axis=1)


class OfFourSeeds(Honest):
    '''The generator picks one of four sets of sequences.'''

    def numbers(self, generator, count):
        chosen = np.random.default_rng(generator.integers(0, 4))
        return chosen.integers(0, 16, (count, self.length))


class FromAList(Honest):
    '''Each split is without equals, from one list.'''

    listed = np.random.default_rng(0).integers(0, 16, (300, 24))

    def numbers(self, generator, count):
        return generator.permutation(self.listed)[:count]


class FourBits(Honest):
    '''Honest: there are sixteen sequences.'''

    vocabulary, length = 2, 4

    def numbers(self, generator, count):
        return generator.integers(0, 2, (count, 4))


class EveryOfFourBits(FourBits):
    '''Honest: each of them once, or as often as they fit.'''

    def numbers(self, generator, count):
        each = (np.arange(16)[:, None] >> np.arange(4)) % 2
        return np.concatenate([generator.permutation(each)] * (1 + count // 16))[:count]


class OneSymbol(Honest):
    '''Honest: few sequences, of many that its tokens would allow.'''

    def numbers(self, generator, count):
        return generator.integers(0, 16, (count, 1)).repeat(self.length, axis=1)


class Waves(GeneratedTask):
    '''Honest: real vectors.'''

    channels, classes, length = 1, 2, 12
    presets = Honest.presets

    def draw(self, generator, count):
        labels = generator.integers(0, 2, (count, 1)).repeat(self.length, axis=1)
        return generator.standard_normal((count, self.length, 1)) + labels[..., None], labels
"""


@pytest.fixture
def here(tmp_path: Path, unknown_tasks: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "splits.py").write_text(FILE)
    yield tmp_path
    sys.modules.pop("splits", None)


def words(task: str) -> list[str]:
    return [f"tasks=./splits.py:{task}", "models=lstm", "preset=smoke", "device=cpu"]


def only_record() -> RunRecord:
    (record,) = read_records([Path("runs/records")])
    return record


@pytest.mark.parametrize("task", ["EasierLater", "EasierLaterEverywhere"])
def test_a_task_that_changes_while_it_is_used_gives_no_number(task: str, here: Path) -> None:
    assert train.main(words(task)) == 1
    record = only_record()
    assert (record.outcome, record.headline.value, record.metrics) == ("failed", None, {})
    assert f"tasks (splits.py:{task}): the " in str(record.cause)
    assert "are others when they are made again, at the end of a run" in str(record.cause)


@pytest.mark.parametrize("task", ["OfFourSeeds", "FromAList"])
def test_sequences_that_splits_share_are_refused_before_a_training(task: str, here: Path) -> None:
    sentence = rf"tasks \(splits\.py:{task}\): [\d,]+ of the 512 sequences of validation and test "
    sentence += r"are also among the first 1,024 of the training, though hardly two within"
    with pytest.raises(UserError, match=sentence) as refusal:
        train.main(words(task))
    assert "\n" not in str(refusal.value)
    assert not list(here.rglob("records/*.json"))
    assert not list(here.rglob("weights.safetensors"))


@pytest.mark.parametrize("task", ["FourBits", "EveryOfFourBits", "OneSymbol"])
def test_a_task_of_few_sequences_is_told_of_and_has_a_row(
    task: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert train.main(words(task)) == OK
    assert only_record().outcome == "ok"
    note = f"note: tasks (splits.py:{task}): 512 of the 512 sequences of validation and test are "
    assert note in capsys.readouterr().err


@pytest.mark.parametrize("task", ["Honest", "Waves"])
def test_splits_apart_are_not_spoken_of(
    task: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert train.main([*words(task), "training.pad_to_multiple_of=5"]) == OK
    assert only_record().outcome == "ok"
    assert "note: tasks" not in capsys.readouterr().err


class Uniform(GeneratedTask):
    length, vocabulary = 4, 64

    def __init__(self, size: int, skewed: bool) -> None:
        super().__init__()
        self.size, self.skewed = size, skewed

    def draw(self, generator: np.random.Generator, count: int) -> tuple[np.ndarray, np.ndarray]:
        share = generator.random((count, 1))
        number = (self.size * (share**2 if self.skewed else share)).astype(int)
        tokens = number // 64 ** np.arange(4) % 64
        return tokens, tokens


@pytest.mark.parametrize("skewed", [False, True])
@pytest.mark.parametrize("size", [10, 10**3, 10**5, 10**7])
def test_independent_draws_are_never_refused(size: int, skewed: bool) -> None:
    """However many sequences there are, and whether or not some are more likely than others."""
    for seed in range(10):
        task = Uniform(size, skewed)
        generator = np.random.default_rng(seed)
        rows = [
            [row.tobytes() for row in task.draw(generator, 256)[0].astype(np.int64)]
            for _ in range(2)
        ]
        refuse_shared_sequences(task, "Uniform", seed, Counter(rows[0]), Counter(rows[1]))
        assert isinstance(task.training_batch(seed, 0, 2).inputs, torch.Tensor)
