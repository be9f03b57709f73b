"""The engine: configuration, training, evaluation, sweeps, records. It names no model or task."""
