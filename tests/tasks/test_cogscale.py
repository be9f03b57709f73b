"""CogScale's tasks against its package: its arrays, its score, and rules written out anew."""

import math
from functools import cache

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from tasks.cogscale import package, task
from tasks.cogscale.task import TASK_NAMES, CogScale
from tests.closeness import assert_near
from tests.conftest import told_by_a_process
from tests.tasks.packages import lacking

needs_the_package = pytest.mark.skipif(bool(lacking("cogscale")), reason=lacking("cogscale"))


@cache
def small(task_name: str) -> CogScale:
    return CogScale(task_name=task_name)


def of_package(task_name: str, split: str) -> tuple[np.ndarray, np.ndarray, str]:
    import cogscale

    content = cogscale.build_task(task_name, difficulty="small", seed=0)
    return content[f"X_{split}"], content[f"Y_{split}"], content["category"]


def random_answers(like: Tensor) -> Tensor:
    return torch.randn(like.shape, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("installed", [None, "0.1.9"])
def test_a_package_that_is_missing_or_another_is_told_in_a_sentence(
    installed: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def version(name: str) -> str:
        if installed is None:
            raise package.PackageNotFoundError(name)
        return installed

    monkeypatch.setattr(package, "version", version)
    state = "is not installed" if installed is None else "is of version 0.1.9"
    with pytest.raises(ValueError, match=f"cogscale 0.2.0, which {state}: python -m pip install"):
        CogScale()


@needs_the_package
def test_the_names_are_those_of_the_package() -> None:
    import cogscale

    assert list(TASK_NAMES) == cogscale.tasks


@needs_the_package
@pytest.mark.parametrize("task_name", TASK_NAMES)
def test_arrays_and_score_are_those_of_the_package(task_name: str) -> None:
    import cogscale

    own = small(task_name)
    for split, name in {"train": "train", "validation": "valid", "test": "test"}.items():
        inputs, targets, category = of_package(task_name, name)
        mine = own.data.splits[split]
        assert own.data.category == category
        assert np.array_equal(mine.targets.numpy(), targets.astype(np.float32))
        if task_name != package.UNSTABLE:
            assert np.array_equal(mine.inputs.numpy(), inputs.astype(np.float32))
    inputs, targets, category = of_package(task_name, "test")
    answers = random_answers(own.data.splits["test"].targets)
    expected = cogscale.compute_score(targets, answers.numpy(), category)
    found = own.measured(answers, "test")
    # Targets are rounded to float32 in one of both.
    assert found.metrics["error"] == pytest.approx(float(expected), rel=1e-6)
    assert len({int(count) for count in own.data.splits["test"].asked.sum(1)}) == 1


@needs_the_package
@pytest.mark.parametrize("task_name", TASK_NAMES)
def test_losses_are_those_of_the_package_s_training(task_name: str) -> None:
    """The sums written out, position by position."""
    own = small(task_name)
    batch = own.training_batch(0, 0, 2)
    answers = random_answers(batch.targets).double()
    losses = []
    for row in range(2):
        for position in range(batch.targets.shape[1]):
            target = batch.targets[row, position].double()
            if bool((target == package.MASKED).all()):
                continue
            answer = answers[row, position]
            if own.data.category == "classification":
                right = int(target.argmax())
                losses.append(float(torch.logsumexp(answer, 0) - answer[right]))
            elif own.data.category == "multi_classification":
                for logit, label in zip(answer.tolist(), target.tolist(), strict=True):
                    losses.append(math.log1p(math.exp(-logit if label else logit)))
            else:
                losses += ((answer - target) ** 2).tolist()
    expected = torch.tensor(math.fsum(losses) / len(losses))
    assert_near(own.loss(answers.float(), batch), expected, terms=1000)


@needs_the_package
def test_words_are_in_one_order_in_every_process_where_the_package_s_are_not() -> None:
    script = """
import json, cogscale, numpy
from tasks.cogscale.task import CogScale
raw = cogscale.build_task("cross_situation", difficulty="small", seed=0)["X_train"]
print(json.dumps([CogScale(task_name="cross_situation").data_hashes(), raw.argmax(-1).tolist()]))
"""
    hashes, words = told_by_a_process(script)
    own = small("cross_situation")
    assert hashes == own.data_hashes()
    inputs, _, _ = of_package("cross_situation", "train")
    # Both name the same words by other numbers: one map leads from these to those.
    is_word = inputs.any(-1)
    here, there = inputs.argmax(-1)[is_word].tolist(), np.array(words)[is_word].tolist()
    pairs = {*zip(here, there, strict=True)}
    assert len(pairs) == inputs.shape[-1]
    ordered = own.data.splits["train"].inputs.numpy()
    columns = {inputs[..., k].astype(np.float32).tobytes() for k in range(inputs.shape[-1])}
    assert {ordered[..., k].tobytes() for k in range(ordered.shape[-1])} == columns


@needs_the_package
def test_an_epoch_goes_through_the_training_set_once() -> None:
    own = small("sorting_problem")
    batches = [own.training_batch(3, step, 10) for step in range(own.steps_per_epoch(10))]
    seen = torch.cat([batch.inputs for batch in batches])
    rows = {row.numpy().tobytes() for row in seen}
    assert rows == {row.numpy().tobytes() for row in own.data.splits["train"].inputs}
    second = own.training_batch(3, 10, 10)
    assert not torch.equal(second.inputs, batches[0].inputs)


@needs_the_package
@pytest.mark.parametrize("task_name", TASK_NAMES)
def test_the_causal_oracle_knows_what_can_be_known(task_name: str) -> None:
    own = small(task_name)
    error = own.baselines()["causal oracle"]("test").metrics["error"]
    if not task_name.endswith("pattern_completion"):
        # It answers with the targets themselves; a distance of theirs is a rounding of float32.
        assert error <= torch.finfo(torch.float32).eps ** 2
        return
    # Of each masked position, by hand: whether its element was shown before.
    inputs, targets, _ = of_package(task_name, "test")
    masked = targets[..., 0] != package.MASKED
    unknown, wrong = 0, 0.0
    for row in range(len(inputs)):
        for position in np.flatnonzero(masked[row]):
            earlier = range(position % 4, position, 4)  # patterns of four elements
            if all(masked[row, place] for place in earlier):
                unknown += 1
                if task_name.startswith("discrete"):
                    wrong += targets[row, position].argmax() != 0
                else:
                    wrong += (targets[row, position, 0] - 0.5) ** 2
    assert error == pytest.approx(wrong / masked.sum(), rel=1e-6)
    # 0.0556 in the mean over data: a first element is masked with 0.2, and 1 of 3 guesses is right.
    assert 0.05 < unknown / masked.sum() < 0.12


class Reads(nn.Module):
    """Answers with the targets of the split whose inputs it gets."""

    def __init__(self, answers: Tensor) -> None:
        super().__init__()
        self.answers = answers

    def forward(self, inputs: Tensor) -> Tensor:
        part, self.answers = self.answers[: len(inputs)], self.answers[len(inputs) :]
        return part


@needs_the_package
def test_shortcuts_and_no_numbers_are_scored_as_answers() -> None:
    own = small("associative_recall")
    latest = own.baselines()["latest occurrence"]("test").per_sequence["error"]
    inputs, targets, _ = of_package("associative_recall", "test")
    tokens, answers = inputs.argmax(-1).tolist(), targets[:, -1].argmax(-1).tolist()
    expected = []
    for row, answer in zip(tokens, answers, strict=True):
        last = max(place for place, token in enumerate(row[:-1]) if token == row[-1])
        expected.append(float(row[last + 1] != answer))
    assert latest == expected
    nothing = torch.full_like(own.data.splits["test"].targets, math.nan)
    assert own.evaluate(Reads(nothing), "test", "cpu").metrics["error"] == 1.0
    brackets = small("bracket_matching").baselines()["equal counts"]("test").metrics["error"]
    inputs, targets, _ = of_package("bracket_matching", "test")
    balanced = inputs[..., 0].sum(1) == inputs[..., 1].sum(1)
    assert brackets == pytest.approx((balanced != (targets[:, -1, 1] == 1)).mean())


@needs_the_package
def test_scores_of_parts_add_up(monkeypatch: pytest.MonkeyPatch) -> None:
    own = small("discrete_postcasting")
    answers = random_answers(own.data.splits["test"].targets)
    whole = own.evaluate(Reads(answers), "test", "cpu").metrics
    monkeypatch.setattr(task, "SEQUENCES_AT_ONCE", 7)
    assert own.evaluate(Reads(answers), "test", "cpu").metrics == whole
