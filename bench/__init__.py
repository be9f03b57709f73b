"""The engine: configuration, training, evaluation, sweeps, records. It names no model or task."""

# Raised whenever the engine's own behaviour changes a result (an optimiser rule, a schedule, the
# seeding of steps): it is part of a run's identity, so that no older result is served as current.
PROTOCOL_VERSION = 1
