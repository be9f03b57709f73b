"""The models that tasks list pass the examination on these tasks, in float32, as they are made."""

import pytest

from bench.config.files import models_of
from bench.config.groups import choices
from bench.examination.examination import examine
from bench.training.building import build_model, build_task
from tests.configurations import compose
from tests.tasks.packages import lacking

TASKS = [task for task in choices("tasks") if models_of(task) == "models"]


@pytest.mark.parametrize("task_name", TASKS)
def test_the_models_that_a_task_lists_pass(task_name: str) -> None:
    if reason := lacking(task_name):
        pytest.skip(reason)
    for name in compose([f"tasks={task_name}", "models=gpt2"]).sweep.models:
        configuration = compose([f"tasks={task_name}", f"models={name}"])
        task = build_task(configuration)
        model = build_model(configuration, task, 0).train()
        inputs = task.training_batch(0, 0, 2).inputs
        before = {name: value.clone() for name, value in model.state_dict().items()}
        examined = examine(model, task.specification(), inputs)
        assert {"causal by values", "causal by prefixes", "causal by gradients"} <= {
            *examined.passed
        }, name
        assert {"moved parameters", "inputs unchanged"} <= {*examined.passed}, name
        assert model.training
        after = model.state_dict()
        assert all(bool((after[key] == value).all()) for key, value in before.items()), name
