"""A small language model that is trained here, so that a bare machine has one to ask.

It learns the format of the questions and how far a note is to be trusted, from made-up sequences:
without a note nobody can know; a note is right as often as its confidence says, and where the
confidence is not shown, as often as ``note_accuracy``. Where the note is wrong, the lesson is to
say so. Whether it then uses a note is measured like that of any other model.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from functools import cached_property

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from models.gpt2 import GPT2
from models.specification import SequenceSpecification
from tasks.interface import Report
from tasks.memory_in_the_loop.questions import UNKNOWN, Answer, Question
from tasks.memory_in_the_loop.recall import STEP

TOKEN = re.compile(r"\w+|[^\w\s]")
ROWS = 96  # of a training batch, for each kind of question with a note
BARE = 16  # of those without
LEARNING_RATE = 5e-3
EMBEDDING = 0.3  # standard deviation: so that copying any of a thousand tokens is learnt at once
SEED = int.from_bytes(hashlib.sha256(b"memory_in_the_loop/local").digest()[:4])


class LocalModel:
    """One-layer GPT2 over words, answering with its likeliest token.

    Args:
        names: how the items of sequences are written.
        noun: what an item is called.
        length: items of a sequence, the last included.
        steps: of training.
        note_accuracy: share of right notes that it sees in training, above 0 and below 1.
        data_seed: of its first weights and its lessons.
    """

    failures: tuple[str, ...] = ()
    WIDTH, HEADS = 64, 2

    def __init__(
        self,
        names: Sequence[str],
        noun: str,
        length: int,
        *,
        steps: int,
        note_accuracy: float,
        data_seed: int,
    ) -> None:
        self._names, self._noun, self._length = list(names), noun, length
        self._steps, self._note_accuracy, self._data_seed = steps, note_accuracy, data_seed
        whole = Question((), self._names[0], 0).text(noun)
        numbers = [str(k) for k in range(0, 101, STEP)]
        # All tokens that a question can have, in a fixed order: the first occurrence of each.
        tokens = [*self._names, UNKNOWN, *numbers, *TOKEN.findall(whole), *"?"]
        self._tokens = list(dict.fromkeys(tokens))
        self._index = {token: k for k, token in enumerate(self._tokens)}
        self.model = f"local GPT2, {steps} steps"

    def answers(self, questions: Sequence[Question], report: Report) -> list[Answer]:
        """Trains itself when it is asked for the first time."""
        self._report = report
        words = [""] * len(questions)
        texts = [question.text(self._noun) for question in questions]
        rows = [self._encoded(text) for text in texts]
        with torch.no_grad():
            # One pass for each length: no padding, which the model was never trained on.
            for length in sorted({len(row) for row in rows}):
                places = [k for k, row in enumerate(rows) if len(row) == length]
                logits, _ = self._trained.prefill(torch.tensor([rows[k] for k in places]))
                for place, token in zip(places, logits.argmax(-1).tolist(), strict=True):
                    words[place] = self._tokens[token]
        return [Answer(text, self.model) for text in words]

    def _encoded(self, text: str) -> list[int]:
        return [self._index[token] for token in TOKEN.findall(text)]

    @cached_property
    def _trained(self) -> GPT2:
        specification = SequenceSpecification(
            maximum_length=self._length + 16, vocabulary=len(self._tokens)
        )
        random = np.random.Generator(np.random.Philox(key=[SEED, self._data_seed]))
        # The caller's random numbers stay as they are, and that it measures without gradients.
        with torch.random.fork_rng(devices=[]), torch.enable_grad():
            torch.manual_seed(int(random.integers(2**32)))
            model = GPT2(specification, width=self.WIDTH, layers=1, heads=self.HEADS, dropout=0.0)
            torch.nn.init.normal_(model.output_matrix, std=EMBEDDING)
            optimizer = torch.optim.Adam(model.parameters(), LEARNING_RATE)
            schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.05, self._steps)
            for step in range(self._steps):
                loss = self._loss(model, random)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                schedule.step()
                self._report("training the local model", step + 1, self._steps)
        return model.eval()

    def _loss(self, model: GPT2, random: np.random.Generator) -> Tensor:
        """Mean cross-entropy of the answers to new questions of all three kinds."""
        losses = []
        for rows, hint in ((BARE, ""), (ROWS, "note"), (ROWS, "confidence")):
            inputs, targets = self._lesson(random, rows, hint)
            logits, _ = model.prefill(inputs)
            # Of the last position alone: the answer is one token.
            losses.append(functional.cross_entropy(logits, targets, reduction="sum"))
        return torch.stack(losses).sum() / (BARE + 2 * ROWS)

    def _lesson(self, random: np.random.Generator, rows: int, shown: str) -> tuple[Tensor, Tensor]:
        """Questions int64 (rows, time) and the tokens that answer them, int64 (rows,)."""
        items = random.integers(len(self._names), size=(rows, self._length))
        # Any chance is as likely as any other, but for as many certain ones as make the mean.
        certain = random.random(rows) < abs(2 * self._note_accuracy - 1)
        chance = np.where(certain, self._note_accuracy > 0.5, random.random(rows))
        stated = np.rint(chance * (100 / STEP)).astype(int) * STEP
        # Right as often as is stated: a model that trusts the stated confidence is calibrated.
        right = random.random(rows) < stated / 100
        unknown = self._index[UNKNOWN]
        inputs, targets = [], []
        for row, percent, true in zip(items.tolist(), stated.tolist(), right, strict=True):
            stem = tuple(self._names[k] for k in row[:-1])
            question = Question(
                stem,
                self._names[row[-1]] if shown else None,
                percent if shown == "confidence" else None,
            )
            inputs.append(self._encoded(question.text(self._noun)))
            targets.append(row[-1] if shown and true else unknown)
        return torch.tensor(inputs), torch.tensor(targets)
