"""The experiments of the README: four numbers, of which the first three ask for the last.

README of suyash144/titans: memorise one sequence, memorise many, a stream of memorising and asking,
capacity, forgetting. Sequences are random, so there is nothing to learn but them. A sequence is
recalled where the number that comes back is its last one: an answer that is a number is rounded, of
one that is a vector the nearest counts among the values that were written. All trials are one batch
of independent memories; one that diverges recalls nothing from then on, and is counted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from models.memories.interface import Memory
from tasks.interface import Evaluation
from tasks.test_time_memory.coding import NONSENSE, Coding
from tasks.test_time_memory.coins import coins
from tasks.test_time_memory.material import NUMBERS
from tasks.test_time_memory.scores import kept_numbers

RECALLED = 0.99  # of the sequences, for a memory to hold so many
SCORES_AT_ONCE = 2**24  # how many similarities of queries and what is stored


@dataclass
class Experiments:
    """One memory, one coding of sequences, one generator.

    Attributes:
        fresh: an empty memory of the sizes of ``coding``.
        trials: independent memories, for each experiment anew.
        found: what the experiments have measured so far.
        headlines: by experiment, the recall in the end, of the largest number of sequences.
    """

    fresh: Callable[[], Memory]
    coding: Coding
    trials: int
    generator: torch.Generator
    device: torch.device | str
    found: Evaluation = field(default_factory=lambda: Evaluation({}))
    headlines: dict[str, float] = field(default_factory=dict)

    def one(self) -> None:
        """One sequence, asked for right after."""
        self._memorised("one", [1])

    def many(self, counts: Sequence[int]) -> None:
        """So many sequences in one ``write``, all asked for right after."""
        self._memorised("many", counts)

    def capacity(self, counts: Sequence[int]) -> None:
        """As ``many``; the capacity is the largest count before recall first is below 0.99."""
        recalls = self._memorised("capacity", counts)
        held = 0
        for count, recall in zip(counts, recalls, strict=True):
            if recall < RECALLED:
                break
            held = count
        self.found.metrics["capacity"] = float(held)

    def stream(self, events: int) -> None:
        """At each event a coin decides whether a new sequence is memorised, or one that was
        memorised before is asked for."""
        sequences = self._sequences(events)
        memory, written, right = self.fresh(), 0, []
        for memorises in coins(events, self.generator):
            if memorises:
                self._write(memory, sequences[:, written : written + 1])
                written += 1
                continue
            which = int(torch.randint(0, written, (), generator=self.generator))
            asked_for = sequences[:, which : which + 1]
            right.append(self._recall(memory, asked_for, sequences[:, :written]))
        self._diverged("stream", memory, sequences[:, :written])
        self.found.metrics["stream_memorised"] = float(written)
        # Never empty: the coins of ``coins`` have at least one recall.
        self.headlines["stream"] = self.found.metrics["stream_recall"] = sum(right) / len(right)

    def forgetting(self, count: int) -> None:
        """So many sequences, then as many others: how many of the first are still recalled?"""
        sequences = self._sequences(2 * count)
        first, second = sequences.split(count, 1)
        memory = self.fresh()
        self._write(memory, first)
        before = self._recall(memory, first, first)
        self._write(memory, second)
        halves = {"first": first, "second": second}
        # Candidates are the values of both halves.
        after = {name: self._recall(memory, half, sequences) for name, half in halves.items()}
        self.found.metrics["forgetting_first_before"] = before
        for name, recall in after.items():
            self.found.metrics[f"forgetting_{name}_after"] = recall
        self._diverged("forgetting", memory, sequences)
        self.headlines["forgetting"] = sum(after.values()) / 2

    def _memorised(self, name: str, counts: Sequence[int]) -> list[float]:
        recalls = []
        for count in counts:
            sequences, memory = self._sequences(count), self.fresh()
            self._write(memory, sequences)
            recalls.append(self._recall(memory, sequences, sequences))
            suffix = "" if name == "one" else f"_{count}"
            self.found.metrics[f"{name}_recall{suffix}"] = recalls[-1]
            self._diverged(f"{name}{suffix}", memory, sequences)
        self.found.curves[f"{name}_recall"] = {"x": [float(c) for c in counts], "y": recalls}
        self.headlines[name] = recalls[-1]
        return recalls

    def _sequences(self, count: int) -> Tensor:
        """int64 (trials, count, length)."""
        shape = (self.trials, count, self.coding.space.length)
        return torch.randint(0, NUMBERS, shape, generator=self.generator)

    def _write(self, memory: Memory, sequences: Tensor) -> None:
        coded = (self.coding.keys(sequences), self.coding.values(sequences))
        memory.write(*(part.to(self.device) for part in coded))

    def _answers(self, memory: Memory, asked: Tensor, written: Tensor) -> Tensor:
        """The numbers that come back for the stems of ``asked``, int64 (trials, items) on the CPU;
        ``written`` is all that the memory was given."""
        stored = torch.zeros(self.trials, NUMBERS, dtype=torch.bool)
        stored.scatter_(1, written[..., -1], True)
        stored = stored.to(self.device)
        at_once = max(1, SCORES_AT_ONCE // (self.trials * max(NUMBERS, written.shape[1])))
        parts = []
        for part in asked.split(at_once, 1):
            read = memory.read(self.coding.keys(part).to(self.device))
            parts.append(self.coding.numbers(read.values, stored))
        return torch.cat(parts, 1).cpu()

    def _recall(self, memory: Memory, asked: Tensor, written: Tensor) -> float:
        right = self._answers(memory, asked, written) == asked[..., -1]
        return right.float().mean().item()

    def _diverged(self, name: str, memory: Memory, sequences: Tensor) -> None:
        """Note the share of trials that no longer answer with numbers, and the sizes."""
        # Asked once more in the end: a trial is lost from the write at which it diverged.
        lost = (self._answers(memory, sequences, sequences) == NONSENSE).any(-1)
        self.found.metrics[f"{name}_diverged"] = lost.float().mean().item()
        size = memory.size_in_bytes() / self.trials
        self.found.metrics["state_bytes"] = size
        self.found.metrics["parameters"] = kept_numbers(memory, self.trials)
        if lost.any():
            which = ", ".join(str(trial) for trial in lost.nonzero()[:, 0].tolist())
            cause = f"{name}: the memory of trial {which} answers with numbers that are not finite"
            self.found.arrays.setdefault("diverged", []).append(cause)
