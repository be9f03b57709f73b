"""Several trainings of equal shapes computed as one: stacked parameters, one step for all.

Each keeps what it has alone: its batches and dropout, its schedule, clipping and weight decay, its
curve, validation and checkpoint. So it can diverge alone, and whoever finds its checkpoint goes on
with it alone. Numbers agree with those of a training alone but for the rounding of matrix products,
which are computed for all models at once. Before the first step each model's gradient is computed
alone as well, and models whose gradients differ are not stacked.

A stack moves checkpoints on and nothing else: :func:`bench.training.loop.fit` then takes the
weights from them, or makes the steps that could not be made together.
"""

from __future__ import annotations

import math
import time
import warnings
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import nullcontext, suppress
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap
from torch.utils.data import DataLoader, IterableDataset

from bench.training.draws import AsAlone, NotStackable, no_python_draws, unchanged_buffers
from bench.training.loop import TrainingModule, stop_on_signal, trainer_of
from bench.training.optimisation import set_learning_rate
from bench.training.parallel import Ranks
from bench.training.seeding import seed_generators
from bench.training.trainer import LightningModule, SIGTERMException
from bench.training.training import Member, Stopped, TrainingDiverged
from core.progress import Report, silent
from tasks.interface import Batch, Task

# Largest difference of a gradient from that of the model alone, relative to its length: ten times
# what was measured for the models of the project, and far below what another mask makes.
TOLERANCES = {torch.float64: 1e-9, torch.float32: 1e-4}
TOLERANCE_IN_HALF_PRECISION = 0.05


def fit_together(
    members: Sequence[Member],
    device: torch.device,
    description: str = "training",
    report: Report = silent,
) -> dict[int, TrainingDiverged]:
    """Go on with trainings from their checkpoints, as far as they can be computed as one.

    Args:
        members: of one model and task but for what is data; settings may differ in the learning
            rate, its schedule and the weight decay.

    Returns:
        Those that diverged: place in ``members`` -> how. All others have their checkpoints at the
        step that they have reached, at best the last.

    Raises:
        Stopped: SIGINT or one of STOPS came; the checkpoints are at the step reached.
    """
    failures: dict[int, TrainingDiverged] = {}
    with stop_on_signal() as stop_asked:
        modules = []
        for member in members:
            model = member.model.to(device).train()
            of_member = (member.task, member.settings, member.seed, member.checkpoint)
            of_stack = (lambda done, total: None, stop_asked, Ranks())
            modules.append(TrainingModule(model, *of_member, *of_stack).to(device))
        reached = defaultdict(list)
        for place, module in enumerate(modules):
            reached[module.step].append(place)
        for step, places in reached.items():
            if len(places) > 1 and step < modules[places[0]].total:
                with suppress(NotStackable):
                    going = {place: modules[place] for place in places}
                    together = _StackModule(going, partial(report, description))
                    failures |= together.make_steps(device)
    return failures


class _Batches(IterableDataset[tuple[Batch, ...]]):
    """The batches of each step; one where all members have the same."""

    def __init__(self, members: Sequence[TrainingModule]) -> None:
        self.members = members

    def __iter__(self) -> Iterator[tuple[Batch, ...]]:
        size = self.members[0].settings.batch_size
        for step in range(self.members[0].step, self.members[0].total):
            drawn: dict[tuple[int, int], Batch] = {}
            for m in self.members:
                if (id(m.task), m.seed) not in drawn:
                    drawn[id(m.task), m.seed] = m.task.training_batch(m.seed, step, size)
            yield tuple(drawn[id(m.task), m.seed] for m in self.members)


class _Loss(nn.Module):
    """The training loss as a module, so that whatever a task calls of the model has the parameters
    of a call."""

    def __init__(self, model: nn.Module, task: Task) -> None:
        super().__init__()
        self.model, self.task = model, task

    def forward(self, batch: Batch) -> Tensor:
        return self.task.training_loss(self.model, batch)


class _StackedAdamW(torch.optim.Optimizer):
    """AdamW for all members at once, by PyTorch's formulas; each has the rates and decays of its
    own optimiser, whose state it leaves there."""

    def __init__(self, stack: _StackModule) -> None:
        super().__init__(list(stack.parameters_of_all.values()), {})
        self.stack = stack

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        if closure is not None:
            with torch.enable_grad():
                closure()
        stack = self.stack
        stack.steps += 1
        step = int(stack.steps[0])
        factors: dict[tuple[int, ...], tuple[Tensor, Tensor]] = {}
        for name, groups in stack.groups.items():  # frozen parameters have none
            parameter = stack.parameters_of_all[name]
            key = tuple(map(id, groups))
            beta1, beta2 = groups[0]["betas"]
            if key not in factors:
                correction = 1 - beta1**step
                decays = [1 - group["lr"] * group["weight_decay"] for group in groups]
                sizes = [-group["lr"] / correction for group in groups]
                factors[key] = parameter.new_tensor(decays), parameter.new_tensor(sizes)
            shape = [-1, *[1] * (parameter.ndim - 1)]
            # (members, 1, …): one factor for each member.
            keep, size = (factor.view(shape) for factor in factors[key])
            gradient, (first, second) = parameter.grad, stack.moments[name]
            assert gradient is not None
            parameter.mul_(keep)
            first.lerp_(gradient, 1 - beta1)
            second.mul_(beta2).addcmul_(gradient, gradient, value=1 - beta2)
            # In PyTorch's order: √(v / (1 − β₂ᵗ)) + ε.
            root = (second.sqrt() / (1 - beta2**step) ** 0.5).add_(groups[0]["eps"])
            parameter.add_((first / root).mul_(size))


class _StackModule(LightningModule):
    """Glue between several trainings and one of Lightning's loops.

    The tensors of the models and of their optimisers are parts of stacked ones, so that what a
    member saves, validates and hands out is always what the stack has computed.
    """

    def __init__(self, members: dict[int, TrainingModule], report: Any) -> None:
        super().__init__()
        self.automatic_optimization = False
        self.members, self.report_progress = members, report
        self.failures: dict[int, TrainingDiverged] = {}
        self.begun, self.begun_at = list(members), self.going[0].step
        self.checked = False
        self._bind()
        self.optimizer = _StackedAdamW(self)

    @property
    def going(self) -> list[TrainingModule]:
        return list(self.members.values())

    @property
    def _same_draws(self) -> bool:
        """Whether all members have the same batches and the same dropout."""
        first = self.going[0]
        return all(m.seed == first.seed and m.task is first.task for m in self.going)

    def _bind(self) -> None:
        """Stack the tensors of the members, and make theirs parts of the stack."""
        going = self.going
        if len({m.step for m in going}) > 1 or len({m.total for m in going}) > 1:
            raise NotStackable("they are not at the same step")
        models = [dict(m.model.named_parameters()) for m in going]
        self.parameters_of_all: dict[str, Tensor] = {}
        self.moments: dict[str, tuple[Tensor, Tensor]] = {}
        self.groups: dict[str, list[dict[str, Any]]] = {}
        group_of: dict[nn.Parameter, dict[str, Any]] = {}  # tensors are hashed by identity
        for module in going:
            for group in module.optimizer.param_groups:
                group_of |= dict.fromkeys(group["params"], group)
        self.steps = torch.full((len(going),), float(going[0].step))
        for name, parameter in models[0].items():
            of_members = [model[name] for model in models]
            stacked = torch.stack([p.detach() for p in of_members])
            for p, part in zip(of_members, stacked.unbind(0), strict=True):
                # The member's own tensor is a part of the stack from here on.
                p.data = part
            self.parameters_of_all[name] = stacked.requires_grad_(parameter.requires_grad)
            if not parameter.requires_grad:
                continue
            self.groups[name] = [group_of[p] for p in of_members]
            self.moments[name] = self._moments(of_members)
        buffers = [dict(m.model.named_buffers()) for m in going]
        for name, value in buffers[0].items():
            if not all(torch.equal(value, other[name]) for other in buffers[1:]):
                raise NotStackable(f"{name} is no parameter and differs between them")
        self.loss = [_Loss(going[0].model, going[0].task)]  # in a list: no part of this module
        self.places = torch.arange(len(going), device=self.steps.device)
        for module in going:
            module.count_seconds()
            module.sharing = len(going)
            module.record.together = max(module.record.together, len(going))

    def _moments(self, of_members: Sequence[nn.Parameter]) -> tuple[Tensor, Tensor]:
        """Both moments of one parameter of all members, which their optimisers then share."""
        states = [m.optimizer.state[p] for m, p in zip(self.going, of_members, strict=True)]
        moments = []
        for name in ("exp_avg", "exp_avg_sq"):
            zero = torch.zeros_like(of_members[0], requires_grad=False)
            stacked = torch.stack([state.get(name, zero) for state in states])
            for state, part in zip(states, stacked.unbind(0), strict=True):
                state[name] = part
            moments.append(stacked)
        for state, step in zip(states, self.steps.unbind(0), strict=True):
            state["step"] = step
        return moments[0], moments[1]

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return self.optimizer

    def make_steps(self, device: torch.device) -> dict[int, TrainingDiverged]:
        """Go on to the last step, or to the first that cannot be made together."""
        first = self.going[0]
        trainer = trainer_of(first.settings, device, first.total - first.step)
        for module in self.going:
            module.clock = time.perf_counter()
        try:
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", message="There is a performance drop")
                trainer.fit(self, DataLoader(_Batches(self.going), batch_size=None))
        except NotStackable:
            self._save()
        except SIGTERMException:
            self._save()
            raise Stopped from None
        return self.failures

    def _save(self) -> None:
        for module in self.going:
            if module.step > self.begun_at:  # or the stack has not made one step
                module.save()

    def on_train_batch_start(self, batches: tuple[Batch, ...], batch_idx: int) -> None:
        for module in self.going:
            set_learning_rate(module.optimizer, module.rate_at(module.step))

    def training_step(self, batches: tuple[Batch, ...], batch_idx: int) -> None:
        batches = tuple(batches[place] for place in self._places())
        names = list(self.groups)
        try:
            # What a buffer does in the first step it does in all.
            with nullcontext() if self.checked else unchanged_buffers(self.going[0].model):
                losses = self._losses(batches)
            stacked = torch.autograd.grad(
                losses.sum(), [self.parameters_of_all[name] for name in names], allow_unused=True
            )
        except RuntimeError as error:  # torch's words for what vmap cannot do, among others
            raise NotStackable(str(error)) from error
        if any(gradient is None for gradient in stacked):
            raise NotStackable("a parameter has no gradient")
        gradients = dict(zip(names, stacked, strict=True))
        if not self.checked:
            self._compare(batches, gradients)
        self._clip(gradients)
        for name, gradient in gradients.items():
            self.parameters_of_all[name].grad = gradient
        optimizer = self.optimizers()
        assert not isinstance(optimizer, list)
        optimizer.step()
        for module, loss in zip(self.going, losses.detach().unbind(0), strict=True):
            module.pending.append(loss.clone())

    def _places(self) -> list[int]:
        """The batches were made for all members with which the loop began."""
        return [place for place, key in enumerate(self.begun) if key in self.members]

    def _losses(self, batches: tuple[Batch, ...]) -> Tensor:
        """The loss of every model on its batch, (members,)."""
        loss = self.loss[0]

        def with_parameters(of_one: dict[str, Tensor], batch: Batch) -> Tensor:
            named = {f"model.{name}": tensor for name, tensor in of_one.items()}
            return functional_call(loss, named, (batch,))

        if self._same_draws:
            seed_generators(self.going[0].draw_seed(), self.device)

            def on_one_batch(of_one: dict[str, Tensor], place: Tensor) -> Tensor:
                with AsAlone(place, None):
                    return with_parameters(of_one, batches[0])

            return vmap(on_one_batch, randomness="same")(self.parameters_of_all, self.places)
        stacked = _stacked(batches)
        device = self.places.device
        generators = [torch.Generator(device).manual_seed(m.draw_seed()) for m in self.going]

        def on_own_batch(of_one: dict[str, Tensor], place: Tensor, parts: Any) -> Tensor:
            batch = Batch(parts[0], parts[1], batches[0].tokens, parts[2])
            with AsAlone(place, generators):
                return with_parameters(of_one, batch)

        with no_python_draws():
            return vmap(on_own_batch)(self.parameters_of_all, self.places, stacked)

    def _compare(self, batches: Sequence[Batch], gradients: dict[str, Tensor]) -> None:
        """Refuse to go on with members whose first gradients are not those that they have alone."""
        for place, (module, batch) in enumerate(zip(self.going, batches, strict=True)):
            seed_generators(module.draw_seed(), self.device)
            loss = module.task.training_loss(module.model, batch)
            parameters = dict(module.model.named_parameters())
            alone = torch.autograd.grad(loss, [parameters[name] for name in gradients])
            apart = length = 0.0
            for stacked, gradient in zip(gradients.values(), alone, strict=True):
                apart += float((stacked[place] - gradient).square().sum())
                length += float(gradient.square().sum())
            tolerance = TOLERANCES.get(alone[0].dtype, TOLERANCE_IN_HALF_PRECISION)
            if module.settings.precision != "float32":
                tolerance = TOLERANCE_IN_HALF_PRECISION
            # ``not <=``: NaN is a difference too.
            if math.isfinite(length) and not apart <= tolerance**2 * length:
                raise NotStackable(f"its gradient differs from that alone by {apart**0.5:.3g}")
        self.checked = True

    def _clip(self, gradients: dict[str, Tensor]) -> None:
        """The norm of each member's gradient to at most its own bound, as PyTorch clips it."""
        bound = self.going[0].settings.gradient_clip
        if not bound:
            return
        norms = torch.stack([gradient.flatten(1).norm(dim=1) for gradient in gradients.values()])
        # 1e-6 as in ``clip_grad_norm_``.
        factor = (bound / (norms.norm(dim=0) + 1e-6)).clamp(max=1.0)
        for gradient in gradients.values():
            gradient.mul_(factor.view(-1, *[1] * (gradient.ndim - 1)))

    def on_train_batch_end(self, outputs: Any, batches: tuple[Batch, ...], batch_idx: int) -> None:
        stopped, places = False, self._places()
        for place, (key, module) in zip(places, list(self.members.items()), strict=True):
            try:
                module.on_train_batch_end(None, batches[place], batch_idx)
            except TrainingDiverged as error:
                self.failures[key] = error
            except Stopped:
                stopped = True
        if stopped:
            raise Stopped
        first = self.going[0]
        self.report_progress(first.step, first.total)
        if self.failures.keys() & self.members.keys():
            self.members = {k: m for k, m in self.members.items() if k not in self.failures}
            if len(self.members) < 2:
                raise NotStackable("one is left")
            self._bind()
            self.optimizer.param_groups[0]["params"] = list(self.parameters_of_all.values())


def _stacked(batches: Sequence[Batch]) -> tuple[Tensor, Tensor, dict[str, Tensor]]:
    shapes = {(b.inputs.shape, b.targets.shape) for b in batches}
    if len(shapes) > 1:
        raise NotStackable("their batches have different shapes")
    extras = {name: torch.stack([b.extras[name] for b in batches]) for name in batches[0].extras}
    inputs = torch.stack([b.inputs for b in batches])
    return inputs, torch.stack([b.targets for b in batches]), extras
