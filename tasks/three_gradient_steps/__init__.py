"""Three gradient steps that make an induction head."""

from tasks.three_gradient_steps.task import ThreeGradientSteps

__all__ = ["ThreeGradientSteps"]
