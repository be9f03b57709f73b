"""The parts of the battery: each writes fresh memories, asks them and gives numbers.

Definitions as commonly used for memories that are written once: capacity, recency, the forgetting
matrix of continual learning (Lopez-Paz and Ranzato 2017), noise, overwriting, abstention. All
trials of a part are one batch of independent memories.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from models.memories.interface import Memory
from tasks.interface import Evaluation
from tasks.measurement import Diverged
from tasks.test_time_memory import scores
from tasks.test_time_memory.material import Material, NumberSequences, Pairs, unit
from tasks.test_time_memory.scores import Numbers

QUARTERS = 4
BATCHES = 4  # of the forgetting matrix
REPLAYS = (0.0, 0.1, 0.5, 1.0)
FIRST, STEP = 400, 39  # how many first numbers and steps arithmetic sequences may have


@dataclass
class Battery:
    """One memory, one material, one generator.

    Attributes:
        fresh: an empty memory.
        trials: independent memories, for each part anew.
        found: what the parts have measured so far.
    """

    fresh: Callable[[], Memory]
    material: Material
    trials: int
    generator: torch.Generator
    device: torch.device | str
    found: Evaluation = field(default_factory=lambda: Evaluation({}))

    def capacity(self, counts: Sequence[int]) -> None:
        """Recall of everything written so far, while more and more is written; bits stored."""
        pairs = self._pairs(max(counts))
        memory, recalls, written = self.fresh(), [], 0
        for count in counts:
            part = pairs.part(written, count)
            memory.write(part.keys, part.values)
            written = count
            known = pairs.part(0, count)
            recalls.append(self._recall(memory, known.keys, known).mean().item())
            self._metric(f"recall_{count}", recalls[-1])
        self.found.curves["recall_by_count"] = {"x": [float(c) for c in counts], "y": recalls}
        size = memory.size_in_bytes() / self.trials
        self._metric("state_bytes", size)
        kept = max(c * r for c, r in zip(counts, recalls, strict=True))
        self._metric("items_recalled_most", kept)
        for threshold in (0.99, 0.5):
            number = scores.crossing(np.array(counts, float), np.array(recalls), threshold)
            if number is not None:
                self._metric(f"items_at_{threshold:g}", number)
        bits = max(c * r * np.log2(c) for c, r in zip(counts, recalls, strict=True))
        if size:
            self._metric("bits_per_byte", bits / size)

    def recency(self, count: int) -> None:
        """Recall by age after one pass, oldest quarter first."""
        pairs = self._pairs(count)
        memory = self._written(pairs)
        right = self._recall(memory, pairs.keys, pairs).mean(0)
        quarters = [part.mean().item() for part in right.chunk(QUARTERS)]
        self.found.curves["recall_by_age"] = {
            "x": [1 - (k + 0.5) / QUARTERS for k in range(QUARTERS)],
            "y": quarters,
        }
        self._metric("recall_oldest_quarter", quarters[0])
        self._metric("recall_newest_quarter", quarters[-1])

    def forgetting(self, count: int) -> None:
        """R[i][j]: recall of batch j once batch i is written, with a share of the past replayed.

        Mean final recall, backward transfer (mean of R[last][j] - R[j][j]), forgetting (mean of
        the best R[i][j] before the end less R[last][j]).
        """
        pairs = self._pairs(BATCHES * count)
        matrices = {}
        for replay in REPLAYS:
            memory, matrix = self.fresh(), []
            for i in range(BATCHES):
                memory.write(*self._with_replay(pairs, i, count, replay))
                right = self._recall(memory, pairs.keys, pairs).mean(0)
                matrix.append([part.mean().item() for part in right.split(count)])
            matrices[f"{replay:g}"] = matrix
            r, last = np.array(matrix), BATCHES - 1
            suffix = "" if replay == 0 else f"_replay_{replay:g}"
            self._metric(f"final_recall{suffix}", r[last].mean())
            transfer = [r[last, j] - r[j, j] for j in range(last)]
            self._metric(f"backward_transfer{suffix}", np.mean(transfer))
            lost = [r[:last, j].max() - r[last, j] for j in range(last)]
            self._metric(f"forgetting{suffix}", np.mean(lost))
        self.found.arrays["forgetting_matrix"] = matrices

    def noise(self, count: int) -> None:
        """Recall by noisy or partial keys, and the area under it."""
        pairs = self._pairs(count)
        memory = self._written(pairs)
        recalls = []
        for strength in self.material.strengths:
            keys = self.material.corrupted(pairs, strength, self.generator).to(self.device)
            recalls.append(self._recall(memory, keys, pairs).mean().item())
            self._metric(f"recall_noise_{strength:g}", recalls[-1])
        x = list(self.material.strengths)
        self.found.curves["recall_by_noise"] = {"x": x, "y": recalls}
        self._metric("noise_area", np.trapezoid(recalls, x) / (x[-1] - x[0]))

    def overwriting(self, count: int) -> None:
        """Half of the keys get another value: is it found, is the old one, are the others kept?"""
        half = count // 2
        both = self._pairs(count + half)  # one draw, so that equal values have equal labels
        pairs, new = both.part(0, count), both.part(count, count + half)
        memory = self._written(pairs)
        memory.write(pairs.keys[:, :half], new.values)
        answers = self._answers(memory, pairs.keys, both.values, both.labels)
        old = pairs.labels[:, :half]
        self._metric("overwrite_new", (answers[:, :half] == new.labels).float().mean())
        self._metric("overwrite_stale", (answers[:, :half] == old).float().mean())
        kept = (answers[:, half:] == pairs.labels[:, half:]).float().mean()
        self._metric("overwrite_untouched", kept)

    def tracking(self, keys: int, updates: int) -> None:
        """A stream in which keys get new values again and again: is the latest value found?"""
        both = self._pairs(keys + updates)
        pairs, news = both.part(0, keys), both.part(keys, keys + updates)
        whose = torch.randint(0, keys, (self.trials, updates), generator=self.generator)
        whose = whose.to(self.device)
        memory = self.fresh()
        stream = torch.take_along_dim(pairs.keys, whose[..., None], 1)
        memory.write(stream, news.values)
        answers = self._answers(memory, pairs.keys, news.values, news.labels)
        times = torch.arange(updates, device=self.device)
        written = whose[:, None] == torch.arange(keys, device=self.device)[:, None]
        latest = torch.where(written, times, -1).amax(-1)  # (trials, keys)
        labels = torch.take_along_dim(news.labels, latest.clamp(min=0), 1)
        right = (answers == labels)[latest >= 0].float().mean()
        self._metric("tracking_latest", right)

    def abstention(self, count: int) -> None:
        """Does confidence tell what was written from what was not, and right from wrong?"""
        pairs = self._pairs(2 * count)
        seen, unseen = pairs.part(0, count), pairs.part(count, 2 * count)
        memory = self._written(seen)
        sure, unsure = (self._confidence(memory, part.keys) for part in (seen, unseen))
        self._metric("auroc", scores.auroc(sure, unsure))
        nearest = [self._scores(memory, part.keys, seen.values).amax(-1) for part in (seen, unseen)]
        by_candidate = [x.flatten().double().cpu().numpy() for x in nearest]
        self._metric("auroc_by_candidate", scores.auroc(*by_candidate))
        strength = self.material.strengths[2]
        noisy = self.material.corrupted(seen, strength, self.generator).to(self.device)
        confidence = self._confidence(memory, noisy)
        right = self._recall(memory, noisy, seen).flatten().double().cpu().numpy()
        area, at_ninety = scores.risk_coverage(confidence, right)
        self._metric("risk_coverage_area", area)
        self._metric("accuracy_at_90_coverage", at_ninety)
        probability, outcome = scores.calibrated(confidence, right)
        self._metric("calibration_error", scores.calibration_error(probability, outcome))

    def lengths(self, lengths: Sequence[int], count: int) -> None:
        """Number sequences of several lengths, asked by ever shorter stems: any continuation that
        was stored for such a stem is right."""
        assert isinstance(self.material, NumberSequences)
        grid = {}
        for length in lengths:
            material = NumberSequences(self.material.size, self.material.data_seed, length)
            # Few different first numbers, so that short stems have several continuations.
            shape = (self.trials, count, length)
            drawn = torch.randint(0, 8, shape, generator=self.generator)
            drawn[..., -1] = torch.randint(0, 1000, shape[:2], generator=self.generator)
            pairs = self._on_device(material.of_sequences(drawn))
            memory = self._written(pairs)
            for stem in sorted({1, length // 2, length - 1} - {0}):
                keys = material.keys_of(drawn[..., :stem]).to(self.device)
                answers = self._answers(memory, keys, pairs.values, pairs.labels)
                same = (drawn[:, :, None, :stem] == drawn[:, None, :, :stem]).all(-1)
                valid = same.to(self.device) & (pairs.labels[:, None] == answers[..., None])
                grid[f"{length},{stem}"] = valid.any(-1).float().mean().item()
        self.found.arrays["recall_by_length_and_stem"] = grid
        self._metric(f"recall_length_{lengths[-1]}", grid[f"{lengths[-1]},{lengths[-1] - 1}"])

    def tricky(self, count: int) -> None:
        """Arithmetic sequences, half of which break their pattern in the last number: is the
        exception recalled, or what the rule would say? And are the regular ones kept?"""
        assert isinstance(self.material, NumberSequences)
        length, half = self.material.length, count // 2
        rules = torch.stack(  # without repetition: two sequences with one stem are no exception
            [
                torch.randperm(FIRST * STEP, generator=self.generator)[:count]
                for _ in range(self.trials)
            ]
        )
        first, step = (rules // STEP)[..., None], (rules % STEP + 1)[..., None]
        sequences = first + step * torch.arange(length)
        regular = sequences[..., -1].clone()
        sequences[:, :half, -1] = torch.randint(
            0, 1000, (self.trials, half), generator=self.generator
        )
        pairs = self._on_device(self.material.of_sequences(sequences))
        memory = self._written(pairs)
        by_rule = self.material.embeddings[-1, regular].to(self.device)
        values = torch.cat((pairs.values, by_rule), 1)
        labels = torch.cat((pairs.labels, regular.to(self.device)), 1)
        answers = self._answers(memory, pairs.keys, values, labels)
        right = (answers == pairs.labels).float()
        self._metric("exceptions_recalled", right[:, :half].mean())
        self._metric("regular_recalled", right[:, half:].mean())
        ruled = answers[:, :half] == regular[:, :half].to(self.device)
        self._metric("exceptions_answered_by_rule", ruled.float().mean())

    def stream(self, events: int) -> None:
        """The README's simulation: at each event a coin decides whether a new pair is written or
        one that was written before is asked for."""
        pairs = self._pairs(events)
        coins = torch.rand(events, generator=self.generator) < 0.5
        memory, written, right, asked = self.fresh(), 0, 0.0, 0
        for learn in coins.tolist():
            if learn or not written:
                part = pairs.part(written, written + 1)
                memory.write(part.keys, part.values)
                written += 1
                continue
            which = int(torch.randint(0, written, (), generator=self.generator))
            known, query = pairs.part(0, written), pairs.keys[:, which : which + 1]
            answer = self._answers(memory, query, known.values, known.labels)[:, 0]
            right += (answer == known.labels[:, which]).float().mean().item()
            asked += 1
        if asked:
            self._metric("stream_recall", right / asked)

    def cost(self) -> None:
        """FLOPs of writing and of reading one item, counted by operator (without the solving of
        linear systems, which PyTorch's counter leaves out), and parameters."""
        from torch.utils.flop_counter import FlopCounterMode

        pairs = self._pairs(16)
        memory = self._written(pairs.part(0, 15))
        last = pairs.part(15, 16)
        for name, act in (
            ("write", lambda: memory.write(last.keys, last.values)),
            ("read", lambda: memory.read(last.keys)),
        ):
            with FlopCounterMode(display=False, custom_mapping=_uncounted()) as counter:
                act()
            self._metric(f"{name}_flops", counter.get_total_flops() / self.trials)
        self._metric("parameters", sum(p.numel() for p in memory.parameters()))

    def _pairs(self, items: int) -> Pairs:
        return self._on_device(self.material.pairs(self.trials, items, self.generator))

    def _on_device(self, pairs: Pairs) -> Pairs:
        keys, values, labels = (
            part.to(self.device) for part in (pairs.keys, pairs.values, pairs.labels)
        )
        return Pairs(keys, values, labels, pairs.prompts)

    def _written(self, pairs: Pairs) -> Memory:
        memory = self.fresh()
        memory.write(pairs.keys, pairs.values)
        return memory

    def _with_replay(self, pairs: Pairs, i: int, count: int, share: float) -> tuple[Tensor, Tensor]:
        new = pairs.part(i * count, (i + 1) * count)
        again = round(share * i * count)
        if not again:
            return new.keys, new.values
        chosen = torch.randperm(i * count, generator=self.generator)[:again].to(self.device)
        keys = torch.cat((pairs.keys[:, chosen], new.keys), 1)
        return keys, torch.cat((pairs.values[:, chosen], new.values), 1)

    def _scores(self, memory: Memory, keys: Tensor, values: Tensor) -> Tensor:
        """Cosines of what is read and each candidate, (trials, queries, candidates)."""
        read = memory.read(keys).values
        if not torch.isfinite(read).all():
            raise Diverged("the memory answers with numbers that are not finite")
        return unit(read) @ values.mT

    def _confidence(self, memory: Memory, keys: Tensor) -> Numbers:
        """How sure the memory is of each query, as one list."""
        found: Numbers = memory.read(keys).confidence.flatten().double().cpu().numpy()
        if not np.isfinite(found).all():
            raise Diverged("the memory has a confidence that is not finite")
        return found

    def _answers(self, memory: Memory, keys: Tensor, values: Tensor, labels: Tensor) -> Tensor:
        """The labels of the nearest candidates, (trials, queries)."""
        return torch.take_along_dim(labels, self._scores(memory, keys, values).argmax(-1), 1)

    def _recall(self, memory: Memory, keys: Tensor, pairs: Pairs) -> Tensor:
        """1 where the query of an item finds its value among all values of ``pairs``."""
        return (self._answers(memory, keys, pairs.values, pairs.labels) == pairs.labels).float()

    def _metric(self, name: str, value: float | np.floating | Tensor) -> None:
        number = float(value)
        if np.isfinite(number):
            self.found.metrics[name] = number


def _uncounted() -> dict[Any, Any]:
    """FLOPs of what PyTorch's counter leaves out: attention on a CPU, and distances, which count
    as the matrix product that they are at heart."""
    from torch.utils.flop_counter import sdpa_flop_count

    def attention(
        query: Any, key: Any, value: Any, *_: Any, out_shape: Any = None, **__: Any
    ) -> int:
        return int(sdpa_flop_count(query, key, value))

    def distances(x: Any, y: Any, *_: Any, out_shape: Any = None, **__: Any) -> int:
        return 2 * math.prod(x) * y[-2]

    operators: Any = torch.ops.aten
    return {
        operators._scaled_dot_product_flash_attention_for_cpu: attention,
        operators._cdist_forward: distances,
    }
