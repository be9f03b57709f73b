"""Does a language model use what a memory recalls, and does it help to be told how sure it is?"""

from __future__ import annotations

import hashlib
from collections import Counter
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from models.memories.interface import Memory
from tasks.interface import Evaluation, Metric, Report, Split
from tasks.measurement import Build, Measurement, Refused
from tasks.memory_in_the_loop.endpoint import Endpoint, Limits
from tasks.memory_in_the_loop.local import LocalModel
from tasks.memory_in_the_loop.questions import NOUNS, Answer, Answerer, Question, Read, read_answer
from tasks.memory_in_the_loop.recall import STEP, Sequences, stated_confidence

ANSWERERS = ("local", "endpoint")
# Condition -> name of the accuracy in it.
CONDITIONS = {
    "before": "accuracy_before",
    "seen": "accuracy_after",
    "seen_confidence": "accuracy_after_confidence",
    "unseen": "accuracy_unseen",
    "unseen_confidence": "accuracy_unseen_confidence",
}
# The table of answers has these columns: "read" is the item, "unknown", "unreadable" or the kind of
# failure, and "by" a place in the list of the names that answered.
COLUMNS = ("condition", "sequence", "note", "confidence", "text", "read", "by")


class MemoryInTheLoop(Measurement):
    """A language model is asked for the last item of sequences: before they were memorised, and
    then with a note of what the memory recalls, without and with its confidence; also for sequences
    that the memory never saw, whose notes are therefore wrong.

    Metrics, for each of the conditions ``before``, ``seen``, ``seen_confidence``, ``unseen`` and
    ``unseen_confidence``, over the calls that were answered: accuracy, ``used_`` (the answer is the
    note), ``unknown_`` (the answer is that it does not know), ``unreadable_``. ``failed_calls``
    counts the others. ``confidence_effect_seen`` and ``confidence_effect_unseen`` say how much more
    often a note is used when its confidence is shown. The record keeps every answer.

    Source: README of suyash144/titans: what was recalled in the prompt of a language model, and
    its next step, a score of confidence.

    Example: the questions on one sequence that a kernel memory holds (845 139 124 368) and on one
    that it does not (487 703 537 273), ``items=8, size=16``, test of seed 0, each line a line of
    the prompt:

        seen      Sequence: 845 139 124 ?      unseen      Sequence: 487 703 537 ?
                  Note: 368                                Note: 249
                  Confidence: 100 %                        Confidence: 10 %
                  Last number:                             Last number:

    To be right the model must copy the note where it can be trusted, and say that it does not know
    where it cannot; without a note (condition ``before``) one number in 1,000 is a guess.

    Args:
        answerer: "local" trains a small model within the measurement; "endpoint" asks a server.
        endpoint: address of an OpenAI-compatible API. How to reach it is no part of the result;
            the name that the model reports for itself is kept with its answers.
        endpoint_model: its model.
        answers: folder where the answers of an endpoint are saved as they come; questions that
            have an answer there are not asked again. A new folder asks anew.
        retries, timeout, patience, workers, answer_tokens: of calls, see ``Limits``.
        material: "numbers" or "words".
        length: items of a sequence, the last included.
        size: width of keys and values.
        items: sequences that a memory is given, and as many that it is not.
        trials: independent memories.
        training_steps, note_accuracy: of the local model, see ``LocalModel``.
        data_seed: of the vectors of items and of the local model.

    Raises:
        ValueError: an unknown word, or a number out of its range.
    """

    headline = Metric("accuracy_after", "maximise")

    def __init__(
        self,
        answerer: str = "local",
        endpoint: str | None = None,
        endpoint_model: str | None = None,
        answers: str = "runs/answers",
        retries: int = 2,
        timeout: float = 60.0,
        patience: int = 10,
        workers: int = 4,
        answer_tokens: int = 256,
        material: str = "numbers",
        length: int = 4,
        size: int = 64,
        items: int = 64,
        trials: int = 1,
        training_steps: int = 300,
        note_accuracy: float = 0.75,
        data_seed: int = 0,
    ) -> None:
        for key, value, choices in (
            ("answerer", answerer, ANSWERERS),
            ("material", material, tuple(NOUNS)),
        ):
            if value not in choices:
                raise ValueError(f"{key}={value!r} is none of {', '.join(choices)}")
        for key, number, least in (
            ("retries", retries, 0),
            ("patience", patience, 1),
            ("workers", workers, 1),
            ("answer_tokens", answer_tokens, 1),
            ("length", length, 2),
            ("size", size, 2),
            ("items", items, 2),
            ("trials", trials, 1),
            ("training_steps", training_steps, 1),
            ("data_seed", data_seed, 0),
        ):
            if number < least:
                raise ValueError(f"{key}={number}: {least} or more is needed")
        if timeout <= 0 or not 0 < note_accuracy < 1:
            raise ValueError(
                f"timeout={timeout} is above 0, and note_accuracy={note_accuracy} between 0 and 1"
            )
        self._endpoint, self._endpoint_model, self._answers = endpoint, endpoint_model, answers
        self._limits = Limits(answer_tokens, retries, timeout, patience, workers)
        self.answerer, self.material = answerer, material
        self.size, self.items, self.trials = size, items, trials
        self._training_steps, self._note_accuracy = training_steps, note_accuracy
        self._data_seed = data_seed
        self.sequences = Sequences(material, size, length, data_seed)
        # Written and unwritten sequences have 2 · items stems, all of them different.
        if 2 * items > len(self.sequences.names) ** (length - 1):
            raise ValueError(f"items={items}: there are not so many sequences of length={length}")

    def data_hashes(self) -> dict[str, str]:
        """SHA-256 of the sequences of seed 0 and of the vectors that stand for items."""
        splits: tuple[Split, ...] = ("validation", "test")
        embeddings = self.sequences.digest
        return {
            split: hashlib.sha256(
                embeddings + b"".join(part.numpy().tobytes() for part in self._drawn(split, 0))
            ).hexdigest()
            for split in splits
        }

    def prepare(self, report: Report) -> None:
        """Says what is missing before anything is measured.

        Raises:
            ValueError: as ``Endpoint``.
        """
        self._answerer()

    @cached_property
    def _asked(self) -> Answerer:
        return self._answerer()

    def _answerer(self) -> Answerer:
        noun = NOUNS[self.material]
        if self.answerer == "endpoint":
            folder = Path(self._answers)
            return Endpoint(self._endpoint, self._endpoint_model, folder, noun, self._limits)
        return LocalModel(
            self.sequences.names,
            noun,
            self.sequences.length,
            steps=self._training_steps,
            note_accuracy=self._note_accuracy,
            data_seed=self._data_seed,
        )

    def _drawn(self, split: Split, seed: int) -> tuple[Tensor, Tensor]:
        """Sequences to measure with and others to learn what a confidence is worth, each int64
        (trials, 2 * items, length); the first half is memorised."""
        generator = torch.Generator().manual_seed(2 * seed + (split == "test"))
        shape = (self.trials, 2 * self.items)
        return self.sequences.drawn(*shape, generator), self.sequences.drawn(*shape, generator)

    def measure(
        self, build: Build, split: Split, seed: int, device: torch.device | str, report: Report
    ) -> Evaluation:
        """Memorise, ask under all conditions, and count; raises what the answerer raises."""
        sequences, others = self._drawn(split, seed)
        with torch.no_grad():
            memory = self._written(build, seed, sequences, device)
            # All sequences are read, also those that were not written: their notes are the wrong
            # ones.
            recalled = self.sequences.read(memory, sequences, device)
            # Other sequences in a fresh memory of the same kind: the map from confidence to chance
            # must not have seen what is asked.
            calibration = self.sequences.read(
                self._written(build, seed, others, device), others, device
            )
        right = calibration.items == others[..., -1]
        stated = stated_confidence(calibration.confidence, right, recalled.confidence)
        loop = Loop(
            self.sequences.names, self.items, sequences, recalled.items, torch.tensor(stated)
        )
        questions = loop.questions()
        answers = self._asked.answers(questions, report)
        evaluation = loop.evaluated(questions, answers, self._asked.failures)
        evaluation.metrics["state_bytes"] = float(memory.size_in_bytes() / self.trials)
        # Numbers that are kept, as float32.
        evaluation.metrics["parameters"] = float(round(memory.weights_in_bytes() / self.trials / 4))
        return evaluation

    def _written(
        self, build: Build, seed: int, sequences: Tensor, device: torch.device | str
    ) -> Memory:
        memory = build(self.size, self.size, seed=seed)
        if not isinstance(memory, Memory):
            raise Refused(
                "memory_in_the_loop writes to a memory and reads from it, and "
                f"{type(memory).__name__} is none: choose one of models/memories, such as kernel"
            )
        self.sequences.write(memory, sequences[:, : self.items], device)
        return memory


class Loop:
    """The questions of all conditions, and what their answers amount to.

    Args:
        names: how items are written.
        items: sequences of each trial that were memorised.
        sequences: int64 (trials, 2 * items, length).
        notes: int64 (trials, 2 * items), what the memory recalls.
        stated: int64 (trials, 2 * items), percent.
    """

    def __init__(
        self, names: list[str], items: int, sequences: Tensor, notes: Tensor, stated: Tensor
    ) -> None:
        self._names = names
        self._known = frozenset(names)
        seen, unseen = slice(0, items), slice(items, None)
        self._parts = {
            "seen": self._rows(sequences[:, seen], notes[:, seen], stated[:, seen]),
            "unseen": self._rows(sequences[:, unseen], notes[:, unseen], stated[:, unseen]),
        }

    def _rows(self, sequences: Tensor, notes: Tensor, stated: Tensor) -> list[tuple[Any, ...]]:
        """(stem, last item, note, percent) of each sequence."""
        named = [[self._names[k] for k in row] for row in sequences.flatten(0, 1).tolist()]
        recalled = [self._names[k] for k in notes.flatten().tolist()]
        percents = stated.flatten().tolist()
        return [
            (tuple(row[:-1]), row[-1], note, percent)
            for row, note, percent in zip(named, recalled, percents, strict=True)
        ]

    def _of(self, condition: str) -> list[tuple[Any, ...]]:
        return self._parts["unseen" if condition.startswith("unseen") else "seen"]

    def questions(self) -> list[Question]:
        """Condition by condition."""
        return [
            Question(
                stem,
                None if condition == "before" else note,
                percent if condition.endswith("confidence") else None,
            )
            for condition in CONDITIONS
            for stem, _, note, percent in self._of(condition)
        ]

    def evaluated(
        self, questions: list[Question], answers: list[Answer], failures: Any
    ) -> Evaluation:
        """Metrics, the curve of use against confidence, and every answer."""
        metrics: dict[str, float] = {}
        answer_rows: list[list[Any]] = []
        # Names once in a list, and a place in it for each answer: records stay small.
        by = sorted({answer.model for answer in answers if not answer.failure})
        stated_uses: list[tuple[int, bool]] = []
        place = iter(zip(questions, answers, strict=True))
        for condition, accuracy in CONDITIONS.items():
            rows = self._of(condition)
            reads: list[Read] = []
            right: list[bool] = []
            used: list[bool] = []
            for stem, last, note, percent in rows:
                # Questions and answers come in the order of the conditions.
                question, answer = next(place)
                line = [condition, " ".join((*stem, last)), question.note, question.confidence]
                if answer.failure:
                    # A call that failed is no answer: it counts for nothing but ``failed_calls``.
                    answer_rows.append([*line, "", answer.failure, None])
                    continue
                read = read_answer(answer.text, stem, self._known)
                answer_rows.append(
                    [*line, answer.text, read.item or read.kind, by.index(answer.model)]
                )
                reads.append(read)
                right.append(read.item == last)
                used.append(question.note is not None and read.item == note)
                if question.confidence is not None:
                    stated_uses.append((percent, used[-1]))
            if not reads:
                continue
            metrics[accuracy] = _share(right)
            if condition != "before":
                metrics[f"used_{condition}"] = _share(used)
            for kind in ("unknown", "unreadable"):
                metrics[f"{kind}_{condition}"] = _share([read.kind == kind for read in reads])
        for part, rows in self._parts.items():
            metrics[f"recall_{part}"] = _share([note == last for _, last, note, _ in rows])
            metrics[f"stated_{part}"] = sum(percent for *_, percent in rows) / (100 * len(rows))
            pair = [metrics.get(f"used_{part}{end}") for end in ("", "_confidence")]
            if pair[0] is not None and pair[1] is not None:
                metrics[f"confidence_effect_{part}"] = pair[1] - pair[0]
        failed = Counter(answer.failure for answer in answers if answer.failure)
        metrics["failed_calls"] = float(failed.total())
        metrics |= {f"failed_{kind}": float(failed[kind]) for kind in failures}
        levels = [k for k in range(0, 101, STEP) if any(percent == k for percent, _ in stated_uses)]
        # Use against the confidence that was shown, over seen and unseen sequences together.
        use = [_share([used for percent, used in stated_uses if percent == k]) for k in levels]
        return Evaluation(
            metrics,
            curves={"used_by_confidence": {"x": [k / 100 for k in levels], "y": use}}
            if levels
            else {},
            arrays={"answered_by": by, "answers": {"columns": list(COLUMNS), "rows": answer_rows}},
        )


def _share(hits: list[bool]) -> float:
    return sum(hits) / len(hits)
