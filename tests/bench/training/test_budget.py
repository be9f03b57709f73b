"""A width for a budget of parameters or of state."""

import pytest
from torch import nn

from bench.config.budgets import SizeBudget
from bench.config.settings import Configuration
from bench.runs.get_or_run import find_widths
from bench.training import memory
from bench.training.budget import find_width
from bench.training.building import build_model, build_task
from core.errors import UserError
from models.specification import SequenceSpecification
from tests.bench.training.drawing_guests import KeepsATable
from tests.configurations import compose, make_plan

find_widths()  # as the commands do that train
BASE = ["tasks=state_tracking", "preset=smoke"]


class Steps(nn.Module):
    """A rule of its own: the width is 3 or a multiple of 12, of which one is refused in another
    way; and a constructor that looks at numbers, which a device without numbers has not."""

    def __init__(self, specification: SequenceSpecification, width: int = 12) -> None:
        super().__init__()
        if width % 12 and width != 3:
            raise KeyError(width)
        self.table = nn.Linear(width, 100, bias=False)
        assert float(self.table.weight.abs().max()) < 1

    def forward(self, inputs: object) -> None: ...


class Never(nn.Module):
    """A model that is refused at every width."""

    def __init__(self, specification: SequenceSpecification, width: int = 12) -> None:
        super().__init__()
        raise ValueError("of no size")


def built(configuration: Configuration) -> nn.Module:
    return build_model(configuration, build_task(configuration), 0)


def counted(configuration: Configuration) -> tuple[int, int]:
    """Parameters and bytes of state of the model that is built for real."""
    task = build_task(configuration)
    model = build_model(configuration, task, 0)
    parameters = sum(parameter.numel() for parameter in model.parameters())
    return parameters, model.state_bytes(task.specification().maximum_length)  # type: ignore


@pytest.mark.parametrize("model", ["gpt2", "lstm", "mamba", "memory_mosaic", "rwkv4"])
def test_no_other_valid_width_comes_nearer(model: str) -> None:
    """The truth: every width around it, built for real."""
    amount = 40_000
    found = compose([*BASE, f"models={model}", f"models.parameters={amount}"])
    distance = abs(counted(found)[0] - amount)
    assert distance <= 0.05 * amount
    for width in range(found.models["width"] - 8, found.models["width"] + 9):
        try:
            other = compose([*BASE, f"models={model}", f"models.width={width}"])
            assert abs(counted(other)[0] - amount) >= distance
        except UserError:  # no multiple of the heads
            continue


@pytest.mark.parametrize("word", ["models.state_bytes=8192", "models.state=8_192"])
def test_a_budget_of_state_is_met(word: str) -> None:
    found = compose([*BASE, "models=delta_net", word])
    assert abs(counted(found)[1] - 8192) <= 0.05 * 8192
    assert found == compose([*BASE, "models=delta_net", f"models.width={found.models['width']}"])


def test_a_setting_of_that_name_stays_one() -> None:
    words = [*BASE, "models=mamba", "models.state=4"]
    assert compose(words).models["state"] == 4


def test_heads_divide_the_width() -> None:
    words = [*BASE, "models=gpt2", "models.heads=7", "models.parameters=40_000"]
    found = compose(words)
    assert found.models["width"] % 7 == 0
    assert abs(counted(found)[0] - 40_000) <= 2000


def test_rules_of_somebody_else_s_widths_are_found() -> None:
    words = [*BASE, f"models={__name__}.Steps"]
    found = find_width(compose(words), SizeBudget("models.parameters", 120_000))
    assert (found.width, found.size) == (1200, 120_000)
    with pytest.raises(UserError, match=r"within 5% .*in steps of 12: .*width=12 has 1,200"):
        find_width(compose(words), SizeBudget("models.parameters", 1900))


def test_a_table_that_a_class_keeps_has_content_after_the_search() -> None:
    name = f"{KeepsATable.__module__}.KeepsATable"
    KeepsATable.table = None
    found = compose([*BASE, f"models={name}", "models.parameters=20_000"])
    assert abs(sum(p.numel() for p in built(found).parameters()) - 20_000) <= 1000
    assert KeepsATable.table is not None
    assert KeepsATable.table.device.type == "cpu"


def test_a_stranger_s_width_beyond_the_memory_is_beyond_the_budget(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(memory, "memory_here", lambda: 4 * 4 * 400_000)
    words = [*BASE, f"models={__name__}.Steps"]
    found = find_width(compose(words), SizeBudget("models.parameters", 360_000))
    assert (found.width, found.size) == (3600, 360_000)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["models=gpt2", "models.parameters=many"], "is a whole number, such as models.parameters"),
        (["models=gpt2", "models.parameters=1.5"], "is a whole number"),
        (["models=gpt2", "models.parameters=0"], "is a whole number"),
        (["models=gpt2", "models.parameters=9", "models.width=8"], "leave one of them out"),
        (["models=gpt2", "models.parameters=9", "models.state_bytes=8"], "give one of them"),
        (["models=gpt2", "models.parameters=9"], r"no width of GPT2 comes within 5% of .*has "),
        ([f"models={__name__}.Never", "models.parameters=90"], "cannot be built at .*of no size"),
        (["models=memory_unit", "models.parameters=9000"], "models.width, which Memory units does"),
        ([f"models={__name__}.Steps", "models.state_bytes=90"], "it has no state_bytes"),
    ],
)
def test_what_cannot_be_met_is_one_sentence(words: list[str], sentence: str) -> None:
    with pytest.raises(UserError, match=sentence) as caught:
        compose([*BASE, *words])
    assert "\n" not in str(caught.value)


def test_memories_are_told_that_a_budget_is_not_for_them() -> None:
    with pytest.raises(UserError, match="is for models that the engine trains"):
        compose(["tasks=capacity", "models=kernel", "models.parameters=100"])


def test_each_model_and_setting_of_a_sweep_gets_its_width(
    capsys: pytest.CaptureFixture[str],
) -> None:
    space = "sweep.search_space={models.layers:[1,2]}"
    plan = make_plan([*BASE, "models=[gpt2,lstm]", "models.parameters=40_000", space])
    for entry in plan.entries:
        widths = {}
        for layers in (1, 2):
            found = entry.at({"models.layers": layers})
            widths[layers] = found.models["width"]
            assert abs(counted(found)[0] - 40_000) <= 2000
        assert widths[1] > widths[2]
    assert "gives models.width=" in capsys.readouterr().err


def test_budgets_are_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    space = "sweep.search_space={models.parameters:[20_000,40_000],training.lr:[0.001]}"
    (entry,) = make_plan([*BASE, "models=lstm", space]).entries
    assert entry.space == {"models.parameters": [20_000, 40_000], "training.lr": [0.001]}
    sizes = [
        counted(entry.at({"models.parameters": n, "training.lr": 0.001}))[0]
        for n in entry.space["models.parameters"]
    ]
    assert [round(size, -3) for size in sizes] == pytest.approx([20_000, 40_000], rel=0.05)
