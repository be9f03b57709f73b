"""What the name of a run takes from its task, its model and its device, which needs PyTorch:
:mod:`bench.runs.serving` imports it where no record tells the same."""

from bench.examination.constructor import refuse_other_constructor
from bench.examination.task_data import examined_data_hashes
from bench.training.building import device_class, task_or_measurement

__all__ = [
    "device_class",
    "examined_data_hashes",
    "refuse_other_constructor",
    "task_or_measurement",
]
