"""What an examination says of a model that is not refused."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class Examined:
    """What a model has passed.

    Attributes:
        passed: names of the examinations; one that does not apply to a model is not among them.
        unused: parameters that no output depends on, with trained weights.
        changes: whether a call in training mode changes parameters or buffers.
    """

    passed: list[str] = field(default_factory=list)
    unused: list[str] = field(default_factory=list)
    changes: bool = False

    @property
    def writes(self) -> bool:
        """Whether the model has written into its inputs; it has to be given copies."""
        return bool(self.passed) and "inputs unchanged" not in self.passed
