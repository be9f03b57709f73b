"""Run records for tests, with plausible content."""

from typing import Any

from bench.records.schema import Cost, Curve, Headline, Provenance, RunRecord, make_run_id


def make_record(**changes: Any) -> RunRecord:
    """A record of a run that went well; ``changes`` replace fields."""
    fields: dict[str, Any] = {
        "identity": "ab" * 32,
        "seed": 0,
        "task": "regbench",
        "model": "gpt2",
        "label": "GPT2",
        "preset": "smoke",
        "outcome": "ok",
        "headline": Headline(name="accuracy", direction="maximise", value=0.7),
        "metrics": {"test": {"accuracy": 0.7, "loss": 1.1}},
        "per_sequence": {},
        "curves": {"training_loss": Curve(x=[1.0, 2.0], y=[3.0, 2.5])},
        "config": {"tasks": {"states": [4, 6]}, "models": {"width": 64}, "training": {"lr": 1e-3}},
        "cost": Cost(parameters=1000, training_flops=1e9),
        "provenance": Provenance(
            model_code="0" * 64,
            task_code="1" * 64,
            data={"train": "2" * 64},
            library_lock="3" * 64,
            libraries={"torch": "2.13.0"},
            precision="float32",
            device_class="cpu",
            protocol_version=1,
            device="a processor",
            platform="Linux",
            python="3.11.7",
            commit=None,
            dirty=None,
            command="python -m bench.train",
            started_at="2026-01-01T00:00:00+00:00",
        ),
    }
    fields.update(changes)
    fields.setdefault(
        "run_id",
        make_run_id(
            fields["task"], fields["model"], fields["preset"], fields["identity"], fields["seed"]
        ),
    )
    return RunRecord(**fields)
