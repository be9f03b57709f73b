"""The battery as a task: every memory, over vectors, number sequences or text."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import torch
from torch import nn

from models.memories.interface import Memory
from tasks.interface import Evaluation, Metric, Report, Split
from tasks.measurement import Build, Diverged, Measurement
from tasks.test_time_memory.battery import Battery
from tasks.test_time_memory.material import MATERIALS, Material, NumberSequences


class TestTimeMemory(Measurement):
    """A battery of questions to a memory that is written once and never trained beforehand.

    Sources: Behrouz et al. 2025, Titans (arXiv 2501.00663); README of suyash144/titans (memorise
    one and many sequences, a stream of learning and asking, capacity, forgetting, and its list of
    next steps); metrics of continual learning and of selective prediction.

    Args:
        material: "vectors", "numbers" or "text".
        size: width of keys and values.
        counts: items of the capacity curve, ascending; recall at the middle one is the headline.
        items: of the other parts (half of it where keys are overwritten).
        lengths: of number sequences.
        trials: independent memories in each part.
        data_seed: of embeddings.

    Raises:
        ValueError: an unknown material, or a number below its least value.
    """

    __test__ = False  # no test class, whatever its name says
    headline = Metric("recall", "maximise")

    def __init__(
        self,
        material: str = "vectors",
        size: int = 64,
        counts: Sequence[int] = (32, 64, 128, 256, 512),
        items: int = 64,
        lengths: Sequence[int] = (2, 4, 8, 16),
        trials: int = 3,
        data_seed: int = 0,
    ) -> None:
        if material not in MATERIALS:
            raise ValueError(f"material={material!r} is none of {', '.join(MATERIALS)}")
        if size < 2 or trials < 1 or items < 4 or data_seed < 0:
            raise ValueError(
                f"size={size}, trials={trials}, items={items}, data_seed={data_seed}: at least 2, "
                "1, 4 and 0 are needed"
            )
        if len(counts) < 2 or list(counts) != sorted(set(counts)) or min(counts) < 4:
            raise ValueError(f"counts={list(counts)}: give two or more, ascending, from 4 on")
        if not lengths or min(lengths) < 2:
            raise ValueError(f"lengths={list(lengths)}: sequences have two numbers or more")
        self.kind, self.size, self.counts, self.items = material, size, list(counts), items
        self.lengths, self.trials, self.data_seed = list(lengths), trials, data_seed
        self.material: Material = MATERIALS[material](size, data_seed)

    def data_hashes(self) -> dict[str, str]:
        found: dict[str, str] = {}
        splits: tuple[Split, ...] = ("validation", "test")
        for split in splits:
            pairs = self.material.pairs(self.trials, self.items, self._generator(split, 0))
            # Sums of floats may differ in the last digit between machines.
            content = (pairs.keys * 1e4).round().to(torch.int32).numpy().tobytes()
            found[split] = hashlib.sha256(content).hexdigest()
        return found

    def _generator(self, split: Split, seed: int) -> torch.Generator:
        return torch.Generator().manual_seed(2 * seed + (split == "test"))

    def measure(
        self, build: Build, split: Split, seed: int, device: torch.device | str, report: Report
    ) -> Evaluation:
        def fresh() -> Memory:
            memory: nn.Module = build(self.size, self.size, seed=seed)
            assert isinstance(memory, Memory)
            return memory

        battery = Battery(fresh, self.material, self.trials, self._generator(split, seed), device)
        parts = {
            "capacity": lambda: battery.capacity(self.counts),
            "recency": lambda: battery.recency(2 * self.items),
            "forgetting": lambda: battery.forgetting(self.items),
            "noise": lambda: battery.noise(self.items),
            "overwriting": lambda: battery.overwriting(self.items // 2),
            "tracking": lambda: battery.tracking(self.items // 4, self.items),
            "abstention": lambda: battery.abstention(self.items),
            "stream": lambda: battery.stream(self.items),
            "cost": battery.cost,
        }
        if isinstance(self.material, NumberSequences):
            parts["lengths"] = lambda: battery.lengths(self.lengths, self.items)
            parts["tricky"] = lambda: battery.tricky(self.items)
        lost = []
        for done, (name, part) in enumerate(parts.items()):
            report(name, done, len(parts))
            with torch.no_grad():
                try:
                    part()
                except Diverged as error:
                    lost.append(f"{name}: {error}")
        if len(lost) == len(parts):
            raise Diverged(lost[0])
        battery.found.arrays["diverged"] = lost
        middle = self.counts[len(self.counts) // 2]
        if f"recall_{middle}" in battery.found.metrics:
            battery.found.metrics["recall"] = battery.found.metrics[f"recall_{middle}"]
        return battery.found
