"""The battery as a task: every memory, over vectors, number sequences or text."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence

import torch
from torch import nn

from models.memories.interface import Memory
from tasks.interface import Evaluation, Metric, Report, Split
from tasks.measurement import Build, Diverged, Measurement, Refused
from tasks.test_time_memory.battery import Battery
from tasks.test_time_memory.coding import Coding, takes_tokens
from tasks.test_time_memory.experiments import Experiments
from tasks.test_time_memory.material import MATERIALS, Material, NumberSequences

EXPERIMENTS = ("one", "many", "stream", "capacity", "forgetting")


class TestTimeMemory(Measurement):
    """A battery of questions to a memory that is written once and never trained beforehand.

    Sources: Behrouz et al. 2025, Titans (arXiv 2501.00663); README of suyash144/titans (memorise
    one and many sequences, a stream of learning and asking, capacity, forgetting, and its list of
    next steps); metrics of continual learning and of selective prediction.

    With material "integers" it is the README's own experiments: sequences of four numbers as they
    stand. A memory over tokens (such as ``stored_in_weights`` with vocabulary=1001) takes the first
    three as its key, and with loss=squared the last one as its value; every other memory gets fixed
    random vectors for numbers. The headline is then the mean recall over the experiments, each at
    its largest count; validation has only the smallest count of "many" and "capacity", since
    training thousands of sequences twice would take twice as long.

    Example: ``material=numbers, size=8``, three sequences of seed 0. The stem is the key, the last
    number the value, and an answer counts for the value that it has the largest cosine with:

        written  44 239 933 → 760    963 379 427 → 503    497 683 101 → 866
        asked    44 239 933 ?        963 379 427 ?        497 683 101 ?
        cosines of the delta rule's answers with 760, 503, 866:
                 .98  .25 -.25       .04 1.00  .17        -.31  .16 1.00

    A memory must hold each pair apart from the others in a state of its size; one that holds
    nothing is right with one over the number of values that were written.

    Args:
        material: "vectors", "numbers", "text" or "integers".
        size: width of keys and values.
        counts: items of the capacity curve, ascending; recall at the middle one is the headline.
        items: of the other parts (half of it where keys are overwritten).
        lengths: of number sequences.
        widths: of the vectors of memories whose capacity is set against their size; none, or two
            or more, ascending.
        trials: independent memories in each part.
        data_seed: of embeddings.
        experiments: of those with integers: "one", "many", "stream", "capacity", "forgetting".
        many: how many sequences, ascending, in "many".
        events: of the "stream".
        capacities: how many sequences, ascending, in "capacity".
        batch: sequences of each half of "forgetting".

    Raises:
        ValueError: an unknown material or experiment, or a number below its least value.
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
        widths: Sequence[int] = (16, 32, 64),
        trials: int = 3,
        data_seed: int = 0,
        experiments: Sequence[str] = EXPERIMENTS,
        many: Sequence[int] = (8, 50),
        events: int = 32,
        capacities: Sequence[int] = (200,),
        batch: int = 50,
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
        if list(widths) != sorted(set(widths)) or len(widths) == 1 or min(widths, default=2) < 2:
            raise ValueError(
                f"widths={list(widths)}: give none, or two or more, ascending, from 2 on"
            )
        unknown = [name for name in experiments if name not in EXPERIMENTS]
        if unknown or not experiments:
            raise ValueError(
                f"experiments={list(experiments)}: give one or more of {', '.join(EXPERIMENTS)}"
            )
        for name, numbers in (("many", many), ("capacities", capacities)):
            if not numbers or list(numbers) != sorted(set(numbers)) or min(numbers) < 1:
                raise ValueError(f"{name}={list(numbers)}: give one or more, ascending, from 1 on")
        if events < 2 or batch < 1:
            raise ValueError(f"events={events}, batch={batch}: at least 2 and 1 are needed")
        self.kind, self.size, self.counts, self.items = material, size, list(counts), items
        self.lengths, self.widths = list(lengths), list(widths)
        self.trials, self.data_seed = trials, data_seed
        self.experiments, self.many, self.events = list(experiments), list(many), events
        self.capacities, self.batch = list(capacities), batch
        self.material: Material = MATERIALS[material](size, data_seed)

    def data_hashes(self) -> dict[str, str]:
        """SHA-256 of the keys of seed 0, rounded."""
        hashes: dict[str, str] = {}
        splits: tuple[Split, ...] = ("validation", "test")
        for split in splits:
            pairs = self.material.pairs(self.trials, self.items, self._generator(split, 0))
            # Sums of floats may differ in the last digit between machines.
            content = (pairs.keys * 1e4).round().to(torch.int32).numpy().tobytes()
            hashes[split] = hashlib.sha256(content).hexdigest()
        return hashes

    def _generator(self, split: Split, seed: int) -> torch.Generator:
        return torch.Generator().manual_seed(2 * seed + (split == "test"))

    def measure(
        self, build: Build, split: Split, seed: int, device: torch.device | str, report: Report
    ) -> Evaluation:
        """The battery, or the experiments with integers; a part that diverges is left out."""

        def fresh(key_size: int = self.size, value_size: int = self.size) -> Memory:
            memory: nn.Module = build(key_size, value_size, seed=seed)
            assert isinstance(memory, Memory)
            return memory

        # One generator for all parts in their fixed order.
        generator = self._generator(split, seed)
        if self.kind == "integers":
            assert isinstance(self.material, NumberSequences)
            coding = Coding.of(fresh(), self.material)
            # Keys of a memory over tokens are as wide as the stem, not as ``size``.
            runs = Experiments(lambda: fresh(*coding.sizes), coding, self.trials, generator, device)
            return self._experiments(runs, report, whole=split == "test")
        if takes_tokens(fresh()):
            raise Refused(
                f"material={self.kind} gives vectors, and a memory with a vocabulary takes numbers "
                "of tokens: give tasks.material=integers, or models.vocabulary=null"
            )
        battery = Battery(
            lambda width: fresh(width, width), self.material, self.trials, generator, device
        )
        return self._battery(battery, report)

    def _experiments(self, runs: Experiments, report: Report, whole: bool) -> Evaluation:
        # Of validation the smallest count of each experiment.
        counts = slice(None) if whole else slice(1)
        parts: dict[str, Callable[[], None]] = {
            "one": runs.one,
            "many": lambda: runs.many(self.many[counts]),
            "stream": lambda: runs.stream(self.events),
            "capacity": lambda: runs.capacity(self.capacities[counts]),
            "forgetting": lambda: runs.forgetting(self.batch),
        }
        for done, name in enumerate(self.experiments):
            report(name, done, len(self.experiments))
            with torch.no_grad():
                parts[name]()
        headlines = [runs.headlines[name] for name in self.experiments]  # none of them missing
        runs.found.metrics["recall"] = sum(headlines) / len(headlines)
        return runs.found

    def _battery(self, battery: Battery, report: Report) -> Evaluation:
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
        if self.widths and self.kind == "vectors":
            parts["scaling"] = lambda: battery.scaling(self.widths, self.counts[-1])
        if isinstance(self.material, NumberSequences):
            parts["lengths"] = lambda: battery.lengths(self.lengths, self.items)
            parts["tricky"] = lambda: battery.tricky(self.items)
        lost = []
        for done, (name, part) in enumerate(parts.items()):
            report(name, done, len(parts))
            with torch.no_grad():
                try:
                    # A part that diverges takes no other with it.
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
