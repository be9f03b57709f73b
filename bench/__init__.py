"""The engine: configuration, training, evaluation, sweeps, records. It names no model or task."""

import ground as ground  # says which Python is needed
