"""What makes a run the same run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from bench.records.equivalence import Code, Config, names
from bench.records.provenance import PROTOCOL_VERSION, sha256_of
from bench.records.schema import Provenance, make_run_id
from bench.settings.settings import Configuration

FIXED = ("data", "library_lock", "precision", "device_class")  # the same by all equal code


@dataclass(frozen=True)
class Identity:
    """What makes a run the same run; the seed is apart.

    Attributes:
        identity: by the code that is here.
        earlier: identities of the same run by code that is proven equal.
    """

    configuration: Configuration
    identity: str
    provenance: Provenance
    earlier: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        configuration: Configuration,
        config: Config,
        provenance: Provenance,
        baseline: str | None = None,
    ) -> Identity:
        """The identity of a run by the code of ``provenance``, with those by all equal code.

        Args:
            config: resolved, as a record keeps it.
            baseline: the label of a predictor without training.
        """
        fixed: dict[str, Any] = {name: getattr(provenance, name) for name in FIXED}
        fixed |= {"preset": configuration.preset, "protocol_version": PROTOCOL_VERSION}
        if baseline is not None:
            fixed["baseline"] = baseline
        first, *earlier = [
            sha256_of({**fixed, "config": name.config, **name.code.hashes()})
            for name in names(Code.of(config, provenance), config)
        ]
        return cls(configuration, first, provenance, tuple(earlier))

    @property
    def all(self) -> tuple[str, ...]:
        """Every identity of this run, that of today first."""
        return (self.identity, *self.earlier)

    def run_id(self, seed: int) -> str:
        """The name of the run with ``seed``."""
        return self.run_ids(seed)[0]

    def run_ids(self, seed: int) -> list[str]:
        """Every name of the run with ``seed``, that of today first."""
        c = self.configuration
        return [make_run_id(c.task, c.model, c.preset, one, seed) for one in self.all]
