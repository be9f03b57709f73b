"""What a package is examined through: one class around its network, and a list of adapters.

An adapter says how a package's own code is called; it adds at most an embedding and an output
matrix around a layer, and never changes what the package computes.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from torch import Tensor, nn

WIDTH = 64
LAYERS = 2
HEADS = 2
MAXIMUM_LENGTH = 512  # positions that a table of positions must hold
# Under the names that most packages of transformers have for them.
SIZES = {"dim": WIDTH, "depth": LAYERS, "heads": HEADS, "dim_head": WIDTH // HEADS}

Run = Callable[[nn.Module, Tensor], Any]
Advance = Callable[[nn.Module, Tensor, Any], tuple[Tensor, Any]]


def call(module: nn.Module, inputs: Tensor) -> Any:
    """The forward pass as it is."""
    return module(inputs)


class Wrapped(nn.Module):
    """A language model of a package: tokens (batch, time) -> logits (batch, time, vocabulary).

    Args:
        run: (network, tokens) -> logits.
        advance: (network, tokens (batch, n), state or None) -> (logits (batch, n, vocabulary),
            state), where the package can go on from a state.
    """

    def __init__(self, network: nn.Module, run: Run = call, advance: Advance | None = None) -> None:
        super().__init__()
        self.network, self._run, self._advance = network, run, advance

    def forward(self, tokens: Tensor) -> Tensor:
        return self._run(self.network, tokens)

    @property
    def can_advance(self) -> bool:
        return self._advance is not None

    def advance(self, tokens: Tensor, state: Any) -> tuple[Tensor, Any]:
        assert self._advance is not None
        return self._advance(self.network, tokens, state)


class LayerStack(nn.Module):
    """Layers of a package in pre-norm residual blocks between an embedding and an output matrix.

    Args:
        layers: maps of (batch, time, WIDTH) onto itself.
    """

    def __init__(self, vocabulary: int, layers: list[nn.Module]) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, WIDTH)
        self.layers = nn.ModuleList(layers)
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in layers)
        self.output_norm = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, vocabulary, bias=False)


def layer_model(
    vocabulary: int,
    make_layer: Callable[[], nn.Module],
    run: Run = call,
    advance: Advance | None = None,
) -> Wrapped:
    """A language model of LAYERS layers of a package.

    Args:
        run: (layer, hidden (batch, time, WIDTH)) -> hidden.
        advance: (layer, hidden, state) -> (hidden, state).
    """

    def run_stack(stack: nn.Module, tokens: Tensor) -> Tensor:
        assert isinstance(stack, LayerStack)
        hidden = stack.embedding(tokens)
        for norm, layer in zip(stack.norms, stack.layers, strict=True):
            hidden = hidden + run(layer, norm(hidden))
        return stack.head(stack.output_norm(hidden))

    def advance_stack(stack: nn.Module, tokens: Tensor, states: Any) -> tuple[Tensor, Any]:
        assert isinstance(stack, LayerStack)
        assert advance is not None
        hidden, next_states = stack.embedding(tokens), []
        for index, (norm, layer) in enumerate(zip(stack.norms, stack.layers, strict=True)):
            state = None if states is None else states[index]
            mixed, state = advance(layer, norm(hidden), state)
            hidden = hidden + mixed
            next_states.append(state)
        return stack.head(stack.output_norm(hidden)), next_states

    network = LayerStack(vocabulary, [make_layer() for _ in range(LAYERS)])
    return Wrapped(network, run_stack, None if advance is None else advance_stack)


@dataclass(frozen=True)
class Contender:
    """One class of one package, and how it is examined.

    Attributes:
        label: the name of its row.
        requirements: what pip installs without dependencies; the first is the package itself.
        rival: the model of this project of the same kind.
        build: (vocabulary, **changes) -> a model, where ``changes`` are arguments of the package's
            constructor.
        changes: argument -> another valid value, for all that should change what is computed.
        pieces: what ``advance`` takes: "any" number of new tokens at any time, several in a
            "prompt" alone and single ones after it, or "one" token at a time.
        multiple_of: lengths that the package takes without padding of its own.
        regbench: whether it is fast enough on a CPU to be trained on RegBench and recall.
        long_length: the length at which its outputs have to be numbers.
    """

    label: str
    requirements: tuple[str, ...]
    rival: str
    build: Callable[..., Wrapped]
    changes: Mapping[str, Any] = field(default_factory=dict)
    pieces: Literal["any", "prompt", "one"] = "any"
    multiple_of: int = 1
    regbench: bool = True
    long_length: int = MAXIMUM_LENGTH

    @property
    def package(self) -> str:
        return self.requirements[0].partition("==")[0]

    @property
    def version(self) -> str:
        return self.requirements[0].partition("==")[2]

    @property
    def slug(self) -> str:
        """Its name in files."""
        characters = (c.lower() if c.isalnum() else " " for c in self.label)
        return "_".join("".join(characters).split())


CONTENDERS: list[Contender] = []


def contender(
    label: str, *requirements: str, rival: str, **options: Any
) -> Callable[[Callable[..., Wrapped]], Callable[..., Wrapped]]:
    """Registers the function below it as the ``build`` of a contender."""

    def register(build: Callable[..., Wrapped]) -> Callable[..., Wrapped]:
        CONTENDERS.append(Contender(label, requirements, rival, build, **options))
        return build

    return register
