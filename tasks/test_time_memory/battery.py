"""The parts of the battery: each writes fresh memories, asks them and gives numbers.

Definitions as commonly used for memories that are written once: capacity, recency, the forgetting
matrix of continual learning (Lopez-Paz and Ranzato 2017), noise, overwriting, abstention. All
trials of a part are one batch of independent memories.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from models.memories.interface import Memory
from tasks.interface import Evaluation
from tasks.measurement import Diverged
from tasks.test_time_memory import scores
from tasks.test_time_memory.coins import coins
from tasks.test_time_memory.flops import formulas
from tasks.test_time_memory.material import Material, NumberSequences, Pairs, Vectors, unit
from tasks.test_time_memory.scores import Filled, Numbers
from tasks.test_time_memory.steps import OptimiserSteps

QUARTERS = 4
BATCHES = 4  # of the forgetting matrix
REPLAYS = (0.0, 0.1, 0.5, 1.0)
FEW = 8  # different numbers in the stems of sequences of several lengths
RECALLED = 0.99  # of what was written, for a memory to hold it
FIRST, STEP = 400, 39  # how many first numbers and steps arithmetic sequences may have


@dataclass
class Battery:
    """One memory, one material, one generator.

    Attributes:
        build: an empty memory for keys and values of a width.
        trials: independent memories, for each part anew.
        found: what the parts have measured so far.
    """

    build: Callable[[int], Memory]
    material: Material
    trials: int
    generator: torch.Generator
    device: torch.device | str
    found: Evaluation = field(default_factory=lambda: Evaluation({}))

    def capacity(self, counts: Sequence[int]) -> None:
        """Recall of everything written so far, while more and more is written, and by age in the
        end; the numbers that are kept for it, and the bits that each of them holds: N log2
        (candidates), those recalled; the bytes of the state, and by how many it grows."""
        filled = self._filled(self.fresh(), self._pairs(max(counts)), counts)
        recalls, numbers, state = filled.recalls, filled.kept, filled.state
        for count, recall in zip(counts, recalls, strict=True):
            self._metric(f"recall_{count}", recall)
        x = [float(count) for count in counts]
        self.found.curves["recall_by_count"] = {"x": x, "y": recalls}
        self.found.curves["numbers_by_count"] = {"x": x, "y": numbers}
        self.found.curves["bytes_by_count"] = {"x": x, "y": state}
        self._metric("recall_oldest_quarter_most", filled.quarters[0])
        self._metric("recall_newest_quarter_most", filled.quarters[-1])
        self._metric("parameters", numbers[-1])
        self._metric("state_bytes", state[-1])
        # Between the first and the last count: what a state starts with is no part of an item's
        # bytes.
        self._metric("write_bytes", (state[-1] - state[0]) / (counts[-1] - counts[0]))
        recalled = [c * r for c, r in zip(counts, recalls, strict=True)]
        self._metric("items_recalled_most", max(recalled))
        for threshold in (0.99, 0.5):
            number = scores.crossing(np.array(counts, float), np.array(recalls), threshold)
            if number is not None:
                self._metric(f"items_at_{threshold:g}", number)
        bits = [
            n * np.log2(c) / size
            for n, c, size in zip(recalled, counts, numbers, strict=True)
            if size
        ]
        self._metric("bits_per_parameter", max(bits, default=math.nan))

    def scaling(self, widths: Sequence[int], most: int) -> None:
        """How many items memories of several widths hold at a recall of 0.99, up to ``most``, and
        the slope of log items on log numbers kept. A width that holds ``most`` has no point."""
        items, sizes = [], []
        for width in widths:
            vectors = Vectors(width, 0)
            narrow = Battery(self.build, vectors, self.trials, self.generator, self.device)
            counts = scores.ladder(most)
            memory, pairs = narrow.fresh(), narrow._pairs(most)
            filled = narrow._filled(memory, pairs, counts, stop_below=RECALLED)
            tried = np.array(counts[: len(filled.recalls)], float)
            number = scores.crossing(tried, np.array(filled.recalls), RECALLED)
            if number is not None:
                items.append(number)
                sizes.append(filled.kept[-1])
                self._metric(f"items_at_0.99_width_{width}", number)
        self.found.curves["items_by_numbers"] = {"x": sizes, "y": items}
        if len(items) > 1 and max(sizes) > min(sizes):
            slope = np.polyfit(np.log(sizes), np.log(items), 1)[0]
            self._metric("slope_items_by_numbers", slope)

    def recency(self, count: int) -> None:
        """Recall by age after one pass, oldest quarter first."""
        pairs = self._pairs(count)
        memory = self._written(pairs)
        quarters = scores.by_age(self._recall(memory, pairs.keys, pairs), QUARTERS)
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
            # Batches before the last: only they have been followed by others.
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
        drawn = self._pairs(count + half)  # one draw, so that equal values have equal labels
        pairs, new = drawn.part(0, count), drawn.part(count, count + half)
        memory = self._written(pairs)
        memory.write(pairs.keys[:, :half], new.values)
        answers = self._answers(memory, pairs.keys, drawn.values, drawn.labels)
        old = pairs.labels[:, :half]
        self._metric("overwrite_new", (answers[:, :half] == new.labels).float().mean())
        self._metric("overwrite_stale", (answers[:, :half] == old).float().mean())
        untouched = (answers[:, half:] == pairs.labels[:, half:]).float().mean()
        self._metric("overwrite_untouched", untouched)

    def tracking(self, keys: int, updates: int) -> None:
        """A stream in which keys get new values again and again: is the latest value found?

        Once the keys are written as they are, and once each with the time of its writing, as the
        direction of key and time together: is the latest value then found, and any earlier one?
        """
        drawn = self._pairs(keys + updates)
        pairs, news = drawn.part(0, keys), drawn.part(keys, keys + updates)
        key_of_update = torch.randint(0, keys, (self.trials, updates), generator=self.generator)
        stamps = unit(
            torch.randn(self.trials, updates, self.material.size, generator=self.generator)
        )
        key_of_update, stamps = key_of_update.to(self.device), stamps.to(self.device)
        times = torch.arange(updates, device=self.device)
        written = key_of_update[:, None] == torch.arange(keys, device=self.device)[:, None]
        # The last time at which each key was written; −1 for keys that never were.
        latest = torch.where(written, times, -1).amax(-1)  # (trials, keys)
        last = latest.clamp(min=0)
        labels = torch.take_along_dim(news.labels, last, 1)

        memory = self.fresh()
        stream = torch.take_along_dim(pairs.keys, key_of_update[..., None], 1)
        memory.write(stream, news.values)
        answers = self._answers(memory, pairs.keys, news.values, news.labels)
        self._metric("tracking_latest", (answers == labels)[latest >= 0].float().mean())

        memory, stamped = self.fresh(), unit(stream + stamps)
        memory.write(stamped, news.values)
        queries = unit(pairs.keys + torch.take_along_dim(stamps, last[..., None], 1))
        answers = self._answers(memory, queries, news.values, news.labels)
        self._metric("tracking_stamped", (answers == labels)[latest >= 0].float().mean())
        self._metric("tracking_history", self._recall(memory, stamped, news).mean())

    def abstention(self, count: int) -> None:
        """Does confidence tell what was written from what was not, and right from wrong?

        As many keys are asked that were never written as were; whatever they get is wrong. Orders
        are by the memory's own confidence. Its scale is its own too, so that the calibration error
        takes the largest cosine of the answer and a candidate for the probability to be right.
        """
        pairs = self._pairs(2 * count)
        seen = pairs.part(0, count)
        memory = self._written(seen)
        confidence = self._confidence(memory, pairs.keys)
        cosines = self._scores(memory, pairs.keys, seen.values).amax(-1).double().cpu().numpy()
        self._metric("auroc", scores.auroc(confidence[:, :count], confidence[:, count:]))
        self._metric("auroc_by_candidate", scores.auroc(cosines[:, :count], cosines[:, count:]))
        right = np.zeros(confidence.shape)
        right[:, :count] = self._recall(memory, seen.keys, seen).cpu().numpy()
        area, at_ninety = scores.risk_coverage(confidence.flatten(), right.flatten())
        self._metric("risk_coverage_area", area)
        self._metric("accuracy_at_90_coverage", at_ninety)
        probability = cosines.clip(0, 1).flatten()
        error = scores.calibration_error(probability, right.flatten())
        self._metric("calibration_error", error)

    def lengths(self, lengths: Sequence[int], count: int) -> None:
        """Number sequences of several lengths, asked by every shorter stem: any continuation that
        was stored for such a stem is right. Apart those stems, of any length, that have several."""
        assert isinstance(self.material, NumberSequences)
        grid = {}
        for length in lengths:
            material = NumberSequences(self.material.size, self.material.data_seed, length)
            # Few different first numbers, so that short stems have several continuations.
            shape = (self.trials, count, length)
            drawn = torch.randint(0, FEW, shape, generator=self.generator)
            drawn[..., -1] = torch.randint(0, 1000, shape[:2], generator=self.generator)
            pairs = self._on_device(material.of_sequences(drawn))
            memory = self._written(pairs)
            other = pairs.labels[:, :, None] != pairs.labels[:, None]
            stems, recalls, ambiguous = list(range(1, length)), [], []
            for stem in stems:
                keys = material.keys_of(drawn[..., :stem]).to(self.device)
                answers = self._answers(memory, keys, pairs.values, pairs.labels)
                same = (
                    # Whose stem so far equals the one asked: (trials, queries, items).
                    (drawn[:, :, None, :stem] == drawn[:, None, :, :stem]).all(-1).to(self.device)
                )
                right = (same & (pairs.labels[:, None] == answers[..., None])).any(-1)
                recalls.append(right.float().mean().item())
                several = (same & other).any(-1)
                ambiguous.append(right[several])
                grid[f"{length},{stem}"] = recalls[-1]
            self.found.curves[f"recall_by_stem_{length}"] = {
                "x": [stem / (length - 1) for stem in stems],
                "y": recalls,
            }
            self._metric(f"recall_length_{length}", recalls[-1])
            half = max(1, length // 2)
            self._metric(f"recall_half_stem_{length}", recalls[half - 1])
            self._metric(f"recall_ambiguous_{length}", torch.cat(ambiguous).float().mean())
        self.found.arrays["recall_by_length_and_stem"] = grid

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
        memory, written, right = self.fresh(), 0, []
        for writes in coins(events, self.generator):
            if writes:
                part = pairs.part(written, written + 1)
                memory.write(part.keys, part.values)
                written += 1
                continue
            which = int(torch.randint(0, written, (), generator=self.generator))
            written_pairs, query = pairs.part(0, written), pairs.keys[:, which : which + 1]
            answer = self._answers(memory, query, written_pairs.values, written_pairs.labels)[:, 0]
            right.append((answer == written_pairs.labels[:, which]).float().mean().item())
        self._metric("stream_recall", np.mean(right))

    def cost(self) -> None:
        """FLOPs of writing and of reading one item, counted by operator, and the steps that an
        optimiser takes in this write."""
        from torch.utils.flop_counter import FlopCounterMode

        pairs = self._pairs(16)
        memory = self._written(pairs.part(0, 15))
        last = pairs.part(15, 16)
        for name, act in (
            ("write", lambda: memory.write(last.keys, last.values)),
            ("read", lambda: memory.read(last.keys)),
        ):
            counter = FlopCounterMode(display=False, custom_mapping=formulas())
            with counter, OptimiserSteps() as steps:
                act()
            self._metric(f"{name}_flops", counter.get_total_flops() / self.trials)
            if name == "write":
                self._metric("write_optimiser_steps", steps.taken)

    def fresh(self) -> Memory:
        """An empty memory for this material."""
        return self.build(self.material.size)

    def _filled(
        self, memory: Memory, pairs: Pairs, counts: Sequence[int], stop_below: float = 0.0
    ) -> Filled:
        """A memory after each of ``counts`` items, until recall is too low."""
        filled, written = Filled(), 0
        for count in counts:
            part = pairs.part(written, count)
            memory.write(part.keys, part.values)
            written = count
            so_far = pairs.part(0, count)
            right = self._recall(memory, so_far.keys, so_far)
            filled.recalls.append(right.mean().item())
            filled.quarters = scores.by_age(right, QUARTERS)
            filled.kept.append(scores.kept_numbers(memory, self.trials))
            filled.state.append(memory.size_in_bytes() / self.trials)
            if filled.recalls[-1] < stop_below:
                break
        return filled

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
        replayed = round(share * i * count)
        if not replayed:
            return new.keys, new.values
        chosen = torch.randperm(i * count, generator=self.generator)[:replayed].to(self.device)
        keys = torch.cat((pairs.keys[:, chosen], new.keys), 1)
        return keys, torch.cat((pairs.values[:, chosen], new.values), 1)

    def _scores(self, memory: Memory, keys: Tensor, values: Tensor) -> Tensor:
        """Cosines of what is read and each candidate, (trials, queries, candidates)."""
        read = memory.read(keys).values
        if not torch.isfinite(read).all():
            raise Diverged("the memory answers with numbers that are not finite")
        return unit(read) @ values.mT

    def _confidence(self, memory: Memory, keys: Tensor) -> Numbers:
        """How sure the memory is, (trials, queries)."""
        confidence: Numbers = memory.read(keys).confidence.double().cpu().numpy()
        if not np.isfinite(confidence).all():
            raise Diverged("the memory has a confidence that is not finite")
        return confidence

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
