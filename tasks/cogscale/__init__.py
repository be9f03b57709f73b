"""The tasks of CogScale, an outside benchmark, on the data of its package."""

from tasks.cogscale.task import CogScale

__all__ = ["CogScale"]
