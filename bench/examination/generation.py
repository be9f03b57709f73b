"""What a task lets a model of somebody else generate: by ``step``, or by a ``rollout`` of its own,
which is given observations and says what follows them.

Of ``forward`` everything is examined, so ``step`` has to be ``forward``, position by position. A
``rollout`` gets sequences as long as the longest context and predicts what follows each context, so
it could read what it is asked to predict.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from bench.examination.answers import has_method, method_through
from bench.examination.comparisons import Comparisons
from bench.examination.reader import ModelReader, as_parameters, in_steps, plain, random_state
from bench.examination.rounding import sizes_of
from bench.examination.sequences import SequenceSource
from bench.training.unfit import unfit
from core.seeding import derive_seed
from models.specification import SequenceSpecification

ROLLOUT, STEP = "rollout", "step"
ROLLED_OUT, STEPPED = 8, 2  # sequences of a call that are looked at


@dataclass(frozen=True)
class _RolledOut:
    """One call: inputs (sequences, time, channels), contexts (contexts,) and what it was given
    beside them; outputs (sequences, contexts, …), or None where it has drawn random numbers."""

    inputs: Tensor
    contexts: Tensor
    arguments: tuple[Any, ...]
    named: dict[str, Any]
    outputs: Tensor | None


class WatchedGeneration:
    """The first rollout of an evaluation, and the first sequence that it reads by steps.

    Args:
        specification: of the task that measures the model.
        seed: of the cuts and of what is drawn.
    """

    def __init__(self, model: nn.Module, specification: SequenceSpecification, seed: int) -> None:
        self.model, self.specification = model, specification
        self.generator = torch.Generator().manual_seed(derive_seed(seed, "what is generated"))
        self.reader = ModelReader(seed, by_hidden=False)
        self.comparisons = Comparisons(model, self.reader, trained=True)
        self._forget()

    def _forget(self) -> None:
        self.rolled_out: _RolledOut | None = None
        self.steps: list[tuple[Tensor, Tensor]] = []  # inputs and outputs of each
        self.state: Any = None  # after the last of them

    @contextmanager
    def watching(self) -> Iterator[None]:
        """In this block, an evaluation, ``rollout`` and ``step`` are looked at."""
        self._forget()
        with ExitStack() as stack:
            for name, look in ((ROLLOUT, self._roll_out), (STEP, self._step)):
                if has_method(self.model, name):
                    stack.enter_context(method_through(self.model, name, look))
            yield

    def examine(self) -> None:
        """Ask once more for what was seen; the caller puts the model back.

        Raises:
            UnfitModel: a rollout sees what it predicts, or ``step`` is not ``forward``.
        """
        if self.rolled_out is not None:
            self._examine_rollout(self.rolled_out)
        if self.steps:
            self._examine_steps()
        self._forget()

    def _roll_out(self, method: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        inputs, contexts = [*arguments[:2], None, None][:2]
        is_usual = isinstance(inputs, Tensor) and isinstance(contexts, Tensor)
        if not is_usual or self.rolled_out is not None:
            return method(*arguments, **named)
        few, before = inputs[:ROLLED_OUT].clone(), random_state(inputs.device)
        outputs = plain(method(*arguments, **named))
        if isinstance(outputs, Tensor) and outputs.shape[:2] == (len(inputs), len(contexts)):
            drew = random_state(inputs.device) != before
            scored = None if drew else outputs[:ROLLED_OUT].flatten(2).clone()
            self.rolled_out = _RolledOut(few, contexts.clone(), arguments[2:], named, scored)
        return outputs

    def _step(self, method: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        inputs, state = [*arguments[:2], None, None][:2]
        state = named.get("state", state)
        inputs = inputs[:STEPPED].clone() if isinstance(inputs, Tensor) else None
        answer = method(*arguments, **named)
        # What goes on from a copy of a state, or from rows of it, is another sequence.
        goes_on = state is self.state if self.steps else state is None
        if goes_on and inputs is not None and isinstance(answer, tuple) and len(answer) == 2:
            self.steps.append((inputs, plain(answer[0])[:STEPPED].clone()))
            self.state = object() if answer[1] is None else answer[1]
        return answer

    def _examine_rollout(self, seen: _RolledOut) -> None:
        source = SequenceSource(seen.inputs, self.specification, self.generator)
        sequences = source.draw(len(seen.inputs), seen.inputs.shape[1])
        contexts = seen.contexts
        cuts = torch.tensor(sequences.cuts, device=contexts.device)
        before_cut = (contexts <= cuts[:, None]).unsqueeze(2)

        def ask(model: nn.Module, inputs: Tensor) -> Tensor:
            asked: Any = model.eval()
            self.reader.seed_draws(inputs.device)
            with torch.no_grad():
                inputs = as_parameters(inputs, model).clone()
                predicted = asked.rollout(inputs, contexts, *seen.arguments, **seen.named)
            outputs: Tensor = plain(predicted)
            return outputs.flatten(2)

        def within(first: Tensor, second: Tensor) -> tuple[Tensor, Tensor, Tensor]:
            return first, torch.where(before_cut, second, first), sizes_of(first)

        def pair(model: nn.Module) -> tuple[Tensor, Tensor, Tensor]:
            return within(ask(model, sequences.inputs), ask(model, sequences.changed))

        scored = seen.outputs
        if scored is not None and len(scored) == len(sequences.inputs):
            computed = within(scored, ask(self.model, sequences.changed))
        else:
            computed = pair(self.model)
        difference = self.comparisons.differ(pair, sequences.length, computed)
        if difference is None:
            return
        unchanged = [row for row, cut in enumerate(sequences.cuts) if cut == sequences.length]

        def beside_others(model: nn.Module) -> tuple[Tensor, Tensor, Tensor]:
            first, second, sizes = pair(model)
            return first[unchanged], second[unchanged], sizes[unchanged]

        of_others = self.comparisons.differ(beside_others, sequences.length) if unchanged else None
        if of_others is not None:
            raise unfit("rollout by others", difference=of_others)
        context, cut = int(contexts[difference.position]), sequences.cuts[difference.row]
        raise unfit("rollout sees the future", cut=cut, context=context, difference=difference)

    def _examine_steps(self) -> None:
        inputs = torch.stack([given for given, _ in self.steps], 1)
        scored = torch.stack([answer for _, answer in self.steps], 1)
        outputs = self.reader.read(self.model, inputs)
        if self.reader.drew or scored.shape != outputs.shape:
            return

        def pair(model: nn.Module) -> tuple[Tensor, Tensor, Tensor]:
            expected = self.reader.read(model, inputs)
            return in_steps(model, [inputs])[0][0], expected, sizes_of(expected)

        computed = scored, outputs, sizes_of(outputs)
        difference = self.comparisons.differ(pair, len(self.steps), computed)
        if difference is not None:
            raise unfit("step", difference=difference)
