"""The speed command at tiny shapes: that it runs and that its numbers agree with each other."""

import json
import shutil
import statistics
from importlib.metadata import version

import numpy as np
import pytest
import torch

from bench.config.command_line import read_with_lists
from bench.speed import main, settings_of
from bench.timing import beside_peers, passes
from bench.timing.passes import build_model
from bench.timing.peers import PEERS, Shape
from bench.timing.tables import describe_engine
from core.errors import OK, UserError
from core.files import ROOT
from models.linear.gla import GLA

TINY = ["width=8", "layers=1", "heads=2", "length=12", "batch=2", "rounds=3", "device=cpu"]


def test_a_model_that_nobody_named_and_that_takes_no_tokens_is_left_out(monkeypatch, capsys):
    monkeypatch.setattr(passes, "_shaped", lambda: ["gpt2", "cogscale_decoder"])
    assert main([*TINY, "vocabulary=11", "passes=forward", "rounds=1"]) == OK
    shown = capsys.readouterr().out
    assert "cogscale_decoder is left out: CogScale's baselines read real channels" in shown
    with pytest.raises(UserError, match="cogscale_decoder cannot be timed at these shapes"):
        main([*TINY, "vocabulary=11", "models=cogscale_decoder"])


@pytest.mark.bitwise  # both loops make the same operations
def test_measurement_is_consistent(tmp_path, capsys):
    output = tmp_path / "speed.json"
    words = [*TINY, "models=lstm", "reference=gpt2", "vocabulary=[11,50]"]
    words += ["dropout=[0.0,0.2]", f"output={output}"]
    assert main([*words, "engine=true", "engine_steps=2", "profile=true"]) == OK
    content = json.loads(output.read_text())
    keys = ("model", "vocabulary", "dropout")
    rows = {tuple(row[key] for key in keys): row for row in content["models"]}
    assert set(rows) == {(m, v, p) for m in ("gpt2", "lstm") for v in (11, 50) for p in (0.0, 0.2)}
    for (model, vocabulary, dropout), row in rows.items():
        for kind in ("training", "forward", "prefill", "step"):
            found, tokens = row[kind], 2 if kind == "step" else 24
            assert len(found["seconds"]) == 3
            assert min(found["seconds"]) > 0
            median = found["median_seconds"]
            assert median == statistics.median(found["seconds"])
            assert found["tokens_per_second"] == pytest.approx(tokens / median)
            for key, other in (
                ("time_against_reference", rows["gpt2", vocabulary, dropout]),
                ("time_against_first_dropout", rows[model, vocabulary, 0.0]),
            ):
                pairs = zip(found["seconds"], other[kind]["seconds"], strict=True)
                assert found[key] == pytest.approx(statistics.median(a / b for a, b in pairs))
        model = build_model(settings_of(read_with_lists(words)), model, 12, vocabulary, dropout)
        assert row["state_bytes"] == model.state_bytes(12)
        layers = [layer.p for layer in model.modules() if isinstance(layer, torch.nn.Dropout)]
        assert set(layers) == {dropout}
        assert row["parameters"] == sum(p.numel() for p in model.parameters())
        assert row["flops"] > 0
    # The dropout of 0.2 keeps its masks, and a larger vocabulary its probabilities.
    kept = {key: row["kept_for_backward_bytes"] for key, row in rows.items()}
    assert kept["gpt2", 11, 0.0] < kept["gpt2", 11, 0.2]
    assert kept["gpt2", 50, 0.0] - kept["gpt2", 11, 0.0] == 39 * 4 * 24
    # A larger vocabulary adds a row of the tied table for each token, and nothing else.
    parameters = {key: row["parameters"] for key, row in rows.items()}
    assert parameters["gpt2", 50, 0.0] - parameters["gpt2", 11, 0.0] == 39 * 8
    assert set(content["profile"]) == {"gpt2", "lstm"}
    for regions in content["profile"].values():
        assert sum(region["own_share"] for region in regions) <= 1 + 1e-6
        assert all(region["own_share"] <= region["share"] + 1e-6 for region in regions)

    # No speed is worth reporting unless both loops do the same training.
    assert content["engine"]["largest_weight_difference"] == 0
    assert len(content["engine"]["engine_blocks"]) == 3
    shown = capsys.readouterr().out
    assert "vocabulary 50" in shown
    assert "engine / plain" in shown
    low, high = content["engine"]["engine_over_plain_quartiles"]
    assert low <= content["engine"]["engine_over_plain"] <= high
    assert describe_engine(content["engine"]) in shown


class Stepper(GLA):
    """A model that reads a prompt by steps alone."""

    @property
    def prefill(self):
        raise AttributeError


def test_compiled_passes_are_those_of_training(monkeypatch):
    """That compiling works is of ``tests/bench/training/test_compiled.py``."""
    called = []

    def compiled(loss, device):
        def noted(model, batch):
            called.append(type(model).__name__)
            return loss(model, batch)

        return noted

    monkeypatch.setattr(passes, "compiled", compiled)
    words = [*TINY, "models=gpt2", "vocabulary=11", "passes=[training,forward]"]
    assert main(words) == OK
    assert not called
    assert main([*words, "compile=true"]) == OK
    assert called == ["GPT2"] * 4  # the first warms up, then a pass of each round


def test_lengths_are_tables_and_the_cost_of_a_token_against_length(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(passes, "LONGEST_BY_STEPS", 6)
    output = tmp_path / "speed.json"
    words = [w for w in TINY if not w.startswith(("length", "rounds"))]
    mine = f"{__name__}.Stepper"
    words += [f"models={mine}", "length=[6,12]", "vocabulary=11", "rounds=1", f"output={output}"]
    assert main([*words, "passes=[forward,prefill,step]"]) == OK
    rows = json.loads(output.read_text())["models"]
    assert [(row["model"], row["length"]) for row in rows] == [
        (model, length) for length in (6, 12) for model in ("gpt2", mine)
    ]
    for row in rows:
        assert "training" not in row
        assert ("prefill" in row) == (row["model"] == "gpt2")
        # Twelve positions are too many to be read one by one.
        assert ("step" in row) == (row["model"] == "gpt2" or row["length"] == 6)
    shown = capsys.readouterr().out
    assert "length 6, vocabulary 11" in shown
    assert "length 12, vocabulary 11" in shown
    assert "forward: microseconds for each token, by length" in shown


def test_a_clock_that_sees_nothing_of_a_small_pass_ends_in_numbers(tmp_path, monkeypatch):
    monkeypatch.setattr(passes.TimedModel, "forward", lambda self: 0.0)
    words = ["models=[lstm]", "width=8", "layers=1", "heads=1", "length=[2]", "vocabulary=[5]"]
    words += ["passes=[forward]", "rounds=2", "engine=false", f"output={tmp_path / 'found.json'}"]
    assert main(words) == OK
    rows = json.loads((tmp_path / "found.json").read_text())["models"]
    assert all(row["forward"]["tokens_per_second"] > 0 for row in rows)


def test_the_ratio_of_the_engine_is_of_neighbouring_blocks():
    # A machine that becomes twice as slow in the middle of an order that alternates.
    engine, plain = [0.5, 1.1, 1.1], [0.5, 0.5, 1.0]
    ratios = [a / b for a, b in zip(engine, plain, strict=True)]
    shown = describe_engine(
        {
            "model": "gpt2",
            "engine_blocks": engine,
            "plain_blocks": plain,
            "engine_over_plain": statistics.median(ratios),
            "engine_over_plain_quartiles": np.quantile(ratios, [0.25, 0.75]).tolist(),
            "largest_weight_difference": 0.0,
        }
    )
    assert "1.100 (median over 3 pairs of neighbouring blocks, middle half 1.050 to 1.650)" in shown
    assert "0.5000 to 1.1000 s under the engine and 0.5000 to 1.0000 s in the plain loop" in shown


def test_region_of_an_autograd_function_is_found():
    from bench.timing.passes import _profile

    class Slow(torch.autograd.Function):
        @staticmethod
        def forward(x):
            return torch.linalg.matrix_exp(x)

        @staticmethod
        def setup_context(ctx, inputs, output):
            pass

        @staticmethod
        def backward(ctx, gradient):
            return gradient

    x = torch.randn(200, 200, requires_grad=True)

    def run():
        Slow.apply(x).sum().backward()
        return 0.0

    regions = {region["region"]: region for region in _profile(run, 4)}
    assert regions["Slow"]["calls"] == 1  # in each pass
    assert regions["Slow"]["share"] > 0.2


def test_models_are_timed_beside_those_of_packages(tmp_path, capfd):
    """GPT2 of the transformers library gets as many parameters as ours."""
    output = tmp_path / "peers.json"
    words = [*TINY, "width=16", "peers=true", "models=gpt2", "vocabulary=11", f"output={output}"]
    assert main(words) == OK
    (row,) = json.loads(output.read_text())["beside_peers"]
    assert (row["model"], row["package"]) == ("gpt2", "transformers")
    assert row["version"] == version("transformers")
    counts = row["parameters"]
    # A step of the search is 8 units with their weights to and from 16 channels.
    assert abs(counts["package"] - counts["ours"]) <= 8 * (2 * 16 + 1) / 2
    for kind in ("training", "forward"):
        seconds = row[kind]["seconds"]
        pairs = zip(seconds["package"], seconds["ours"], strict=True)
        ratios = [p / o for p, o in pairs]
        assert len(ratios) == 3
        assert row[kind]["ratio"] == pytest.approx(statistics.median(ratios))
    assert "transformers" in capfd.readouterr().out


def test_what_was_measured_before_an_interruption_is_kept(tmp_path, monkeypatch):
    def stopped(settings, peer, device, alive):
        if peer.model != "gpt2":
            raise KeyboardInterrupt
        return {"model": peer.model}

    peers = [peer for peer in PEERS if peer.model in ("gpt2", "gpt2_rope")]
    monkeypatch.setattr(beside_peers, "_peers_of", lambda models: peers)
    monkeypatch.setattr(beside_peers, "_times_beside", stopped)
    output = tmp_path / "peers.json"
    with pytest.raises(KeyboardInterrupt):
        main([*TINY, "peers=true", "vocabulary=11", f"output={output}"])
    assert json.loads(output.read_text())["beside_peers"] == [{"model": "gpt2"}]


@pytest.mark.parametrize("package", sorted({peer.package for peer in PEERS}))
def test_a_package_is_a_causal_model_of_the_shape(package):
    """Logits for every position, and none that a later token changes, so that it does the work."""
    for peer in PEERS:
        if peer.package != package:
            continue
        if peer.version is None:
            pytest.skip(f"{package} is not installed")
        torch.manual_seed(0)
        model = peer.build(Shape(20, 64, 64, 2, 2, 256)).eval()
        tokens = torch.randint(20, (2, 64))
        changed = tokens.clone()
        changed[:, 40:] = (changed[:, 40:] + 1) % 20
        with torch.no_grad():
            outputs, others = model(tokens), model(changed)
        assert outputs.shape == (2, 64, 20)
        torch.testing.assert_close(others[:, :40], outputs[:, :40], atol=1e-3, rtol=1e-3)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["widht=3"], "did you mean 'width'"),
        (["width=none"], "width='none' cannot be used"),
        (["models=lstn"], "did you mean 'lstm'"),
        (["models=gpt2", "heads=3"], "cannot be timed at these shapes"),
        (["vocabulary=0"], r"vocabulary\[0\]=0 cannot be used"),
        (["vocabulary=[11,-5]"], r"vocabulary\[1\]=-5 cannot be used"),
        (["vocabulary=[]"], "vocabulary=.. cannot be used"),
        (["vocabulary=10000000000"], "GiB of weights, and training holds"),
        (["batch=10000000000"], "the memory is too small for these shapes"),
        (["width=true"], "true and false are no values"),
        (["threads=100000"], "less than or equal to 1024"),
        (["layers=100000000"], "less than or equal to 1000"),
        (["width=1000000"], "GiB of weights, and training holds"),
        (["peers=true", "models=h3"], "no package is timed beside 'h3'"),
        (["peers=true", "models=gpt2", "dropout=0.1"], "packages are timed without dropout"),
        (["models=collections.UserDict"], "is no model: a model derives from torch.nn.Module"),
    ],
)
def test_mistakes_are_one_sentence(words, sentence):
    with pytest.raises(UserError, match=sentence):
        main([*TINY, *words])


def test_help_lists_every_setting(capsys):
    assert main(["--help"]) == OK
    shown = capsys.readouterr().out
    for name in settings_of({}).model_dump():
        assert f"\n  {name}: " in shown


def test_bfloat16_changes_what_is_kept_and_the_rate_is_that_of_a_product(tmp_path):
    kept = []
    for precision in ("float32", "bfloat16"):
        output = tmp_path / f"{precision}.json"
        words = [*TINY, "models=gpt2", "vocabulary=11", "passes=[training,prefill,step]"]
        assert main([*words, f"precision={precision}", f"output={output}"]) == OK
        content = json.loads(output.read_text())
        assert content["settings"]["precision"] == precision
        assert "output" not in content["settings"]  # a place of this machine
        assert content["product_flops_per_second"] > 1e6
        kept.append(content["models"][0]["kept_for_backward_bytes"])
    assert kept[0] != kept[1]


@pytest.mark.long
def test_models_are_timed_beside_their_older_code(tmp_path, capfd):
    """An older checkout needs its models alone; what it computes otherwise is told."""
    older, output = tmp_path / "older", tmp_path / "speed.json"
    shutil.copytree(ROOT / "models", older / "models")
    mamba = older / "models" / "mamba.py"
    mamba.write_text(mamba.read_text().replace("functional.silu(gates)", "gates.exp()"))
    words = [*TINY, "models=[lstm,mamba]", "vocabulary=11", f"before={older}", f"output={output}"]
    assert main(words) == OK
    rows = json.loads(output.read_text())["beside_older_code"]
    assert [rows["lstm"][key] for key in ("loss_difference", "gradient_difference")] == [0, 0]
    assert rows["mamba"]["loss_difference"] > 0
    for row in rows.values():
        assert len(row["seconds"]["before"]) == len(row["seconds"]["here"]) == 3
        pairs = zip(row["seconds"]["here"], row["seconds"]["before"], strict=True)
        assert row["ratio"] == pytest.approx(statistics.median(a / b for a, b in pairs))
        assert min(row["peak_kib"].values()) > 0
    calls = rows["lstm"]["operator_calls"]
    assert calls["before"] == calls["here"] > 0
    assert "mamba" in capfd.readouterr().out


def test_an_older_checkout_has_models(tmp_path):
    with pytest.raises(UserError, match="is no checkout of this project"):
        main([*TINY, "models=lstm", f"before={tmp_path}"])
