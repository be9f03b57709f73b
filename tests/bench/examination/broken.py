"""A file of tasks that break the contract of a task, and of honest ones."""

FILE = '''
import os
import time

import numpy as np
import torch
from models.specification import SequenceSpecification
from tasks.generated import GeneratedTask
from tasks.interface import Batch, Evaluation, Metric, Task
from torch.nn.functional import cross_entropy


class Drawn(GeneratedTask):
    channels, classes, length, evaluation_sequences = 2, 3, 6, 8
    presets = {"smoke": {"training": {"steps": 2, "batch_size": 4}, "models": {"width": 8}}}

    def draw(self, generator, count):
        values = generator.normal(size=(count, 6, 2))
        return values, (values.cumsum(1).sum(-1) > 0).astype(int)

    def metrics(self, answers, targets, asked):
        return {"accuracy": self.changed((answers.argmax(-1) == targets).float().mean(1))}

    def changed(self, right):
        return right


class NoDirection(Drawn):
    headline = Metric("accuracy", None)


class OtherDirection(Drawn):
    headline = Metric("accuracy", "up")


class TextHeadline(Drawn):
    headline = "accuracy"


class LateHeadline(Drawn):
    def __init__(self):
        super().__init__()
        self.headline = Metric("accuracy", "max")


class NanMetric(Drawn):
    def changed(self, right):
        return right / 0 * 0


class FloatMetric(Drawn):
    def changed(self, right):
        return float(right.mean())


class ArrayMetric(Drawn):
    def changed(self, right):
        return right.numpy()


class SystemMetric(Drawn):
    def changed(self, right):
        return right + os.urandom(1)[0]


class ClockMetric(Drawn):
    def changed(self, right):
        return right + time.time_ns() % 1000 / 1000


class CountingMetric(Drawn):
    calls = 0

    def changed(self, right):
        self.calls += 1
        return right + self.calls


class GeneratorMetric(Drawn):
    """Honest: PyTorch's generator has one seed in each evaluation."""

    def changed(self, right):
        return right * torch.rand(len(right), device=right.device)


class Whole(Task):
    """Honest: a task by the whole contract, of which parts below do something else."""

    headline = Metric("accuracy", "maximise")
    presets = Drawn.presets

    def specification(self):
        return SequenceSpecification(6, input_channels=2, output_channels=3)

    def data_hashes(self):
        return dict.fromkeys(("train", "validation", "test"), "0" * 64)

    def channels(self, count, seed):
        generator = np.random.Generator(np.random.Philox(seed))
        return torch.from_numpy(generator.normal(size=(count, 6, 2))).float()

    def classes(self, channels):
        return (channels.sum(-1) > 0).long()

    def training_batch(self, seed, step, size):
        channels = self.channels(size, 1000 * seed + step)
        return Batch(channels, self.classes(channels), size * 6)

    def loss(self, outputs, batch):
        return cross_entropy(outputs.flatten(0, 1), batch.targets.flatten())

    def evaluate(self, model, split, device):
        channels = self.channels(8, 10**6 + (split == "test")).to(device)
        outputs = model(channels)
        right = (outputs.argmax(-1) == self.classes(channels)).float().mean(1).tolist()
        loss = float(cross_entropy(outputs.flatten(0, 1), self.classes(channels).long().flatten()))
        return Evaluation({"loss": loss, "accuracy": sum(right) / 8}, {"accuracy": right})


class IntTargets(Whole):
    def classes(self, channels):
        return super().classes(channels).int()


class IntTargetsMended(IntTargets):
    """Honest: its loss takes its targets."""

    def loss(self, outputs, batch):
        return cross_entropy(outputs.flatten(0, 1), batch.targets.flatten().long())


class TargetBeyond(Whole):
    def classes(self, channels):
        return super().classes(channels) + 2


class Doubles(Whole):
    def channels(self, count, seed):
        return super().channels(count, seed).double()


class NanChannels(Whole):
    def channels(self, count, seed):
        return super().channels(count, seed).masked_fill(torch.eye(6, 2).bool(), float("nan"))


class NanTargets(Whole):
    """Honest: its loss leaves them out."""

    def training_batch(self, seed, step, size):
        channels = self.channels(size, 1000 * seed + step)
        targets = channels[..., :1].masked_fill(channels[..., 1:] > 0, float("nan"))
        return Batch(channels, targets, size * 6)

    def loss(self, outputs, batch):
        asked = batch.targets.isfinite()
        return (outputs[..., :1] - batch.targets)[asked].square().mean()


class NanGradient(NanTargets):
    def loss(self, outputs, batch):
        return (outputs[..., :1] - batch.targets).square().nanmean()


class NanTargetsAsked(NanTargets):
    def loss(self, outputs, batch):
        return (outputs[..., :1] - batch.targets).square().mean()


class CountlessTokens(Whole):
    def training_batch(self, seed, step, size):
        batch = super().training_batch(seed, step, size)
        return Batch(batch.inputs, batch.targets, torch.tensor(size * 6))


class NoLoss(Whole):
    def loss(self, outputs, batch):
        super().loss(outputs, batch)


class VectorLoss(Whole):
    def loss(self, outputs, batch):
        return cross_entropy(outputs.flatten(0, 1), batch.targets.flatten(), reduction="none")


class DetachedLoss(Whole):
    def loss(self, outputs, batch):
        return super().loss(outputs, batch).detach()


class BlindLoss(Whole):
    weight = torch.nn.Parameter(torch.ones(()))

    def loss(self, outputs, batch):
        return self.weight * batch.targets.float().mean()


class NanLoss(Whole):
    def loss(self, outputs, batch):
        return super().loss(outputs, batch) * float("nan")


class SystemLoss(Whole):
    def loss(self, outputs, batch):
        return super().loss(outputs, batch) * (1 + os.urandom(1)[0])


class StoppingLoss(Whole):
    def loss(self, outputs, batch):
        return {}["weights"]


class OwnLoss(Whole):
    """Honest: a loss that needs no outputs of a whole batch at once."""

    def training_loss(self, model, batch):
        outputs = model.hidden(batch.inputs) @ model.output_matrix.T
        return self.loss(outputs, batch)

    def loss(self, outputs, batch):
        return super().loss(outputs, batch)


class OwnValidation(Whole):
    def validation_loss(self, model, device):
        return super().validation_loss(model, device) + os.urandom(1)[0]


class TrainingMode(Whole):
    def evaluate(self, model, split, device):
        return super().evaluate(model.train(), split, device)


class Fitting(Whole):
    def evaluate(self, model, split, device):
        for parameter in model.parameters():
            parameter += 1
        return super().evaluate(model, split, device)


class Noisy(Whole):
    """Honest: other weights for as long as it measures."""

    def evaluate(self, model, split, device):
        before = {name: value.clone() for name, value in model.state_dict().items()}
        for parameter in model.parameters():
            parameter += 1
        measured = super().evaluate(model, split, device)
        model.load_state_dict(before)
        return measured


class Longer(Whole):
    def evaluate(self, model, split, device):
        model(torch.zeros(2, 7, 2, device=device))
        return super().evaluate(model, split, device)


class DoublesMeasured(Whole):
    def evaluate(self, model, split, device):
        model(torch.zeros(2, 6, 2, device=device, dtype=torch.float64))
        return super().evaluate(model, split, device)


class StoppingProtocol(Whole):
    def evaluate(self, model, split, device):
        return super().evaluate(model, split, device).metrics["recall"]


class CurveOfPairs(Whole):
    def evaluate(self, model, split, device):
        measured = super().evaluate(model, split, device)
        return Evaluation(measured.metrics, curves={"accuracy": [[1.0, 0.5]]})


class OneForAll(Whole):
    def evaluate(self, model, split, device):
        measured = super().evaluate(model, split, device)
        return Evaluation(measured.metrics, per_sequence={"accuracy": 0.5})


class Guessing(Whole):
    def baselines(self):
        def guess(split):
            right = np.random.rand(8).tolist()
            return Evaluation({"loss": 1.0, "accuracy": sum(right) / 8}, {"accuracy": right})

        return {"guess": guess}


class Seldom(Whole):
    """A target that no model has, in a late batch."""

    def training_batch(self, seed, step, size):
        batch = super().training_batch(seed, step, size)
        return Batch(batch.inputs, batch.targets + 3 * (step > 5), batch.tokens)
'''
