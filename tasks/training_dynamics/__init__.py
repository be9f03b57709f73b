"""How associations are learned by gradient descent: margins, oscillations, forgetting."""

from tasks.training_dynamics.task import TrainingDynamics

__all__ = ["TrainingDynamics"]
