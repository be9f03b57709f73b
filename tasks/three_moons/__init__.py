"""Three moons: predict periodic motions before their combination has ever been seen."""

from tasks.three_moons.task import ThreeMoons

__all__ = ["ThreeMoons"]
