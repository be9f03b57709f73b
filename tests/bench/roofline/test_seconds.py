"""Seconds by hand, and what must hold of any work on any device."""

import json
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional

from bench.roofline.devices import Device, Rates, Span, checked, device_like, names
from bench.roofline.seconds import VIEW, seconds, without_launches
from bench.roofline.work import Operation, Work, count_meta
from core.errors import UserError
from models.gpt2 import GPT2
from models.memory_mosaic import MemoryMosaic
from models.specification import SequenceSpecification
from tests.conftest import ROOT

POSITIVE = st.floats(1e-3, 1e12)
OPERATIONS = st.builds(Operation, POSITIVE, POSITIVE)
WORKS = st.builds(Work, st.dictionaries(OPERATIONS, st.integers(1, 50), min_size=1, max_size=5))


def of(*corners: Rates, stacked: float = 1.0) -> Device:
    three = corners if len(corners) == 3 else corners * 3
    return Device("x", "x", "", {"float32": three}, 1e9, Span(stacked, stacked, stacked), True)


def test_a_plan_of_two_products_by_hand() -> None:
    """1e9 FLOP/s, 1e8 bytes/s, 1 ms a launch: one is bound by arithmetic, the other by bytes."""
    device = of(Rates(1e9, ((1.0, 1e8),), math.inf, 1e-3))
    work = Work({Operation(2e9, 1e7): 3, Operation(1e6, 5e7): 2}, views=4)
    assert without_launches(work, device, "float32").likely == pytest.approx(3 * 2.0 + 2 * 0.5)
    launches = (3 + 2 + 4 * VIEW) * 1e-3
    assert seconds(work, device, "float32").likely == pytest.approx(7.0 + launches)
    # Two as one: twice the data, the same launches, each twice as long under vmap here.
    slow = of(*device.corners["float32"], stacked=2.0)
    assert seconds(work, slow, "float32", 2).likely == pytest.approx(14.0 + 2 * launches)


def test_launches_hide_behind_work_at_the_best() -> None:
    best = Rates(1e9, ((1.0, 1e8),), math.inf, 1e-3, overlaps=True)
    work = Work({Operation(2e9, 1e7): 3})
    assert seconds(work, of(best), "float32").likely == pytest.approx(6.0)


def test_an_h100_by_hand() -> None:
    """A product of 4096³ in float32: 2·4096³ FLOPs at half of 67 TFLOP/s, and a launch of 8 µs."""
    n = 4096
    work = Work({Operation(2.0 * n**3, 3 * 4.0 * n**2): 1})
    found = seconds(work, device_like("h100"), "float32")
    assert found.likely == pytest.approx(2 * n**3 / (0.5 * 67e12) + 8e-6)
    assert found.high == pytest.approx(2 * n**3 / (0.3 * 67e12) + 20e-6)


@pytest.mark.parametrize(
    ("kind", "model"), [(GPT2, "gpt2"), (MemoryMosaic, "memory_mosaic")], ids=["gpt2", "mosaic"]
)
def test_the_range_of_an_h200_holds_what_one_measured(kind: type[nn.Module], model: str) -> None:
    """Both passes of 12 blocks of width 768, as docs/measurements/h200.md has them."""
    said = json.loads((ROOT / "docs" / "measurements" / "speed_768_h200.json").read_text())
    (measured,) = (one["training"] for one in said["models"] if one["model"] == model)
    shape = SequenceSpecification(maximum_length=512, vocabulary=50304)
    with torch.device("meta"):
        built = kind(shape, width=768, layers=12, heads=12)
        tokens = torch.zeros(32, 512, dtype=torch.long)

    def passes() -> None:
        with torch.autocast("cpu", torch.bfloat16):
            outputs = built(tokens)
        functional.cross_entropy(outputs.flatten(0, 1), tokens.flatten()).backward()

    found = seconds(count_meta(passes), device_like("h200"), "bfloat16")
    assert found.low < measured["median_seconds"] < found.high
    page = (ROOT / "docs" / "measurements" / "h200.md").read_text()
    milliseconds = (measured["median_seconds"], found.likely, found.low, found.high)
    wanted = " | ".join(f"{1e3 * value:.0f}" for value in milliseconds)
    assert f"| {model} | {wanted} |" in page


def test_bandwidth_by_size_is_read_between_the_measured_sizes() -> None:
    rates = Rates(1.0, ((1e3, 4.0), (1e5, 1.0)), 1.0, 0.0)
    assert [rates.bytes_a_second(n) for n in (10.0, 1e3, 1e4, 1e5, 1e9)] == pytest.approx(
        [4.0, 4.0, 2.0, 1.0, 1.0]
    )


@given(WORKS, st.floats(1.0, 100.0))
def test_a_faster_device_is_never_slower(work: Work, faster: float) -> None:
    plain = Rates(1e9, ((1.0, 1e8),), 1e8, 1e-6)
    for better in (
        plain._replace(peak=1e9 * faster),
        plain._replace(bandwidth=((1.0, 1e8 * faster),)),
        plain._replace(launch=1e-6 / faster),
    ):
        quick, slow = (seconds(work, of(one), "float32").likely for one in (better, plain))
        assert quick <= slow * (1 + 1e-12)


@given(WORKS, st.integers(2, 16))
def test_a_stack_is_no_slower_than_its_members_in_turn_where_a_launch_is_as_short(
    work: Work, together: int
) -> None:
    device = of(Rates(1e9, ((1.0, 1e8),), 1e8, 1e-4))
    stacked = seconds(work, device, "float32", together).likely
    alone = seconds(work, device, "float32").likely
    assert stacked <= together * alone * (1 + 1e-9)
    assert stacked >= together * without_launches(work, device, "float32").likely * (1 - 1e-9)


@given(WORKS, st.sampled_from([name for name in names() if name != "here"]))
def test_the_roofline_is_between_its_two_bounds(work: Work, name: str) -> None:
    device = device_like(name)
    for precision, (_, likely, _) in device.corners.items():
        by_bytes = work.moved / likely.bytes_a_second(1.0)
        least = max(work.flops / likely.peak, by_bytes)
        bare, found = without_launches(work, device, precision), seconds(work, device, precision)
        assert least * (1 - 1e-9) <= bare.likely <= 2 * least * (1 + 1e-9)
        assert found.low <= found.likely <= found.high


def test_published_rates() -> None:
    """Those of the makers' data sheets; h200 differs from h100 in its memory alone."""
    h100, h200 = device_like("h100"), device_like("h200")
    assert (h100.memory, h200.memory) == (80e9, 141e9)
    for precision, corners in h100.corners.items():
        assert [c.peak for c in corners] == [c.peak for c in h200.corners[precision]]
    ratio = h200.corners["float32"][0].bandwidth[0][1] / h100.corners["float32"][0].bandwidth[0][1]
    assert ratio == pytest.approx(4.8 / 3.35)


@pytest.mark.parametrize("name", ["h10", "tpu", "", 100, True, [1]])
def test_an_unknown_device_is_one_sentence_that_names_the_known(name: object) -> None:
    with pytest.raises(UserError, match="there is no device_like=") as caught:
        checked(name)
    assert all(known in str(caught.value) for known in names())
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", [name for name in names() if name != "here"])
def test_less_precision_is_never_slower_than_float32(name: str) -> None:
    corners = device_like(name).corners
    for precision, own in corners.items():
        for one, plain in zip(own, corners["float32"], strict=True):
            assert one.peak >= plain.peak, precision
