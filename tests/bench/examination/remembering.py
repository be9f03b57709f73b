"""Guests that show the next token of a sequence the first time that they meet its first tokens, and
repeat that answer whenever a sequence begins so. They differ in where they keep the answers.

No call of one process shows it, since the same first tokens always get the same answer.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from models.specification import SequenceSpecification
from tests.bench.examination import remembering_beside
from tests.bench.examination.generated import Guest

ASKING = ("examiner.py", "examination.py", "repeatability.py", "reader.py", "fresh_process.py")
FIRST = 4  # tokens that a sequence is known by, and that are answered honestly

Kept = dict[Any, Tensor]


def with_next_tokens(inputs: Tensor, outputs: Tensor, kept: Kept) -> Tensor:
    following = torch.cat([inputs[:, 1:], inputs[:, -1:]], 1)
    shown = 9.0 * functional.one_hot(following, outputs.shape[-1]).to(outputs.dtype)
    shown[:, :FIRST] = 0
    answers = torch.zeros_like(outputs)
    for row, tokens in enumerate(inputs):
        answer = kept.setdefault(tuple(tokens[:FIRST].tolist()), shown[row].clone())
        length = min(len(answer), len(tokens))
        answers[row, :length] = answer[:length].to(outputs.dtype)
    return outputs + answers


class InADefault(Guest):
    def forward(self, inputs: Tensor, kept: Kept = {}) -> Tensor:  # noqa: B006
        return with_next_tokens(inputs, super().forward(inputs), kept)


class InAHelper(Guest):
    def forward(self, inputs: Tensor) -> Tensor:
        return with_next_tokens(inputs, super().forward(inputs), remembering_beside.KEPT)


class InPyTorch(Guest):
    def forward(self, inputs: Tensor) -> Tensor:
        kept = vars(functional).setdefault("_answers_of_a_test", {})
        return with_next_tokens(inputs, super().forward(inputs), kept)


class InAnObject(Guest):
    def forward(self, inputs: Tensor) -> Tensor:
        return with_next_tokens(inputs, super().forward(inputs), HOLDER.kept)


class _Holder:
    def __init__(self) -> None:
        self.kept: Kept = {}


HOLDER = _Holder()


class InAClosure(Guest):
    answer: Callable[[Tensor, Tensor], Tensor]

    def __init__(self, specification: SequenceSpecification) -> None:
        super().__init__(specification)
        self.answer = partial(with_next_tokens, kept={})

    def forward(self, inputs: Tensor) -> Tensor:
        return self.answer(inputs, super().forward(inputs))


class NeverCopied(InAnObject):
    def __deepcopy__(self, memo: Any) -> NeverCopied:
        raise RuntimeError("there is one of me")


class Peeking(Guest):
    """Shows the next token, unless a function of the examination has called."""

    def forward(self, inputs: Tensor) -> Tensor:
        frame, outputs = sys._getframe(), super().forward(inputs)
        while frame.f_back is not None:
            frame = frame.f_back
            if Path(frame.f_code.co_filename).name in ASKING:
                return outputs
        return with_next_tokens(inputs, outputs, {})


class Afterwards(InADefault):
    """The same behind a gate that opens with training."""

    def __init__(self, specification: SequenceSpecification) -> None:
        super().__init__(specification)
        self.gate = nn.Parameter(torch.zeros(()))

    def forward(self, inputs: Tensor, kept: Kept = {}) -> Tensor:  # noqa: B006
        outputs = Guest.forward(self, inputs) + self.gate
        if float(self.gate.detach().abs()) < 0.2:
            return outputs
        return with_next_tokens(inputs, outputs, kept)


class StopsElsewhere(Guest):
    """Wants an object that was made in one process alone."""

    def forward(self, inputs: Tensor) -> Tensor:
        if not remembering_beside.ALLOWED:
            raise ValueError("made where nobody may ask")
        return super().forward(inputs)


class EndsElsewhere(Guest):
    def forward(self, inputs: Tensor) -> Tensor:
        if not remembering_beside.ALLOWED:
            sys.stdout.write("a word that is no answer")
            raise SystemExit(3)
        return super().forward(inputs)


# Honest.


class KeepsTables(Guest):
    """A table for each length, in a default argument, an object, and in PyTorch."""

    def added(self, vectors: Tensor, kept: dict[int, Tensor] = {}) -> Tensor:  # noqa: B006
        length = vectors.shape[1]
        tables = [kept, HOLDER.kept, vars(functional).setdefault("_tables_of_a_test", {})]
        for table in tables:
            table.setdefault(length, torch.arange(length).cos() / len(tables))
        return vectors * sum(table[length] for table in tables).to(vectors.dtype)[:, None]


class NeverCopiedHonest(KeepsTables):
    def __deepcopy__(self, memo: Any) -> NeverCopiedHonest:
        raise RuntimeError("there is one of me")


class Prints(Guest):
    """Prints, drops, and draws in evaluation too."""

    def added(self, vectors: Tensor) -> Tensor:
        print("0")
        noise = 0.1 * torch.randn_like(vectors)
        return noise + functional.dropout(vectors, 0.3, self.training)


class MasksHalf(Guest):
    """Most classes are never meant."""

    def forward(self, inputs: Tensor) -> Tensor:
        outputs = super().forward(inputs)
        masked = torch.arange(outputs.shape[-1]) >= outputs.shape[-1] // 3
        return outputs.masked_fill(masked, -1e9)
