"""Training steps of a task under the engine, against a plain loop: ``bench.training_speed``."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from bench.config.command_line import Settings, read
from core.errors import OK, UserError, command
from core.words import command_line

if TYPE_CHECKING:
    from bench.config.settings import Configuration

OWN: dict[str, Any] = {"rounds": 5, "timed_steps": 8, "starts": 0, "together": 1, "output": None}
OWN["device_like"] = None

HELP = """\
usage: python -m bench.training_speed tasks=TASK models=MODEL [key=value ...]

Time training steps of one model on one task, as bench.train makes them, in turn with a loop on one
page: the same model, batches and optimiser, all outputs at once (as nanoGPT does), no engine. The
ratio is the median over pairs of neighbouring blocks; with training.compile=true it says what a
compiled step gains, since the loop compiles nothing. Also which share of a step the making of the
batch takes. One thread of a CPU is timed by what it spends, anything else by the clock. Nothing
else should run on the machine meanwhile.

  rounds=5        pairs of blocks
  timed_steps=8   of each block
  starts=0        fresh processes of which the CPU-seconds until their first step are taken too
  together=1      N: instead, N trainings computed as one (bench.sweep stack=N) against each alone
  device_like=here  instead, the estimate of bench.sweep dry_run=true device_like=here against
                  steps under the engine; "models=[a,b]" takes several in turn
  output=FILE     JSON with every block
  any other word  as for bench.train

example: python -m bench.training_speed tasks=babistories models=gpt2 preset=laptop"""


@command_line(HELP, read)
def main(settings: Settings) -> int:
    """Measure, print, and save where ``output=`` says."""
    from bench.config.settings import Configuration

    own = {key: settings.pop(key, default) for key, default in OWN.items()}
    for key, least in (("rounds", 1), ("timed_steps", 1), ("starts", 0), ("together", 1)):
        if not isinstance(own[key], int) or isinstance(own[key], bool) or own[key] < least:
            raise UserError(f"{key}={own[key]} is not a number of at least {least}")
    if own["device_like"] is not None:
        _check_estimate(settings, own)
        return OK
    configuration = Configuration.of(settings)
    if own["together"] > 1:
        _time_together(configuration, own)
        return OK
    from bench.timing.steps import compare, cpu_seconds_to_first_step
    from core.progress import progress

    with progress() as report:
        found = compare(configuration, own["rounds"], own["timed_steps"], report)
        starts = found["start_cpu_seconds"] = []
        for number in range(own["starts"]):
            starts.append(cpu_seconds_to_first_step(settings))
            report("fresh processes", number + 1, own["starts"])
    low, high = found["engine_over_plain_quartiles"]
    print(
        f"{configuration.label} on {configuration.task}, preset {configuration.preset}: a step "
        f"takes {found['engine_seconds']:.4f} s under the engine, {found['plain_seconds']:.4f} s "
        f"in a plain loop (medians of {own['rounds']} blocks)\n"
        f"engine / plain: {found['engine_over_plain']:.3f}, the median over pairs of neighbouring "
        f"blocks (quartiles {low:.3f} and {high:.3f})\n"
        f"tokens per second: {found['tokens_per_second']:,.0f}; making a batch takes "
        f"{found['batch_share']:.2%} of a step"
    )
    if starts:
        print(f"a fresh process reaches its first step after {min(starts):.2f} CPU-seconds")
    _save(found, own["output"])
    return OK


def _time_together(configuration: Configuration, own: dict[str, Any]) -> None:
    from bench.timing.stacks import compare_stack
    from core.progress import progress

    with progress() as report:
        asked = (own["together"], own["rounds"], own["timed_steps"])
        found = compare_stack(configuration, *asked, report)
    low, high = found["quartiles"]
    print(
        f"{configuration.label} on {configuration.task}, preset {configuration.preset}: "
        f"{own['together']} trainings together are {found['factor']:.3f} times as fast as each "
        f"alone (quartiles {low:.3f} and {high:.3f})"
    )
    _save(found, own["output"])


def _check_estimate(settings: Settings, own: dict[str, Any]) -> None:
    from bench.config.settings import Configuration
    from bench.roofline.devices import HERE, checked
    from core.progress import progress

    if checked(own["device_like"]) != HERE:
        raise UserError(
            f"device_like={own['device_like']} cannot be measured here: device_like={HERE} can, "
            "and bench.sweep dry_run=true estimates the others"
        )
    from bench.timing.rooflines import compare_estimate

    chosen = settings.pop("models", None)
    names = chosen if isinstance(chosen, list) else [chosen]
    configurations = [
        Configuration.of({**settings, **({"models": name} if name else {})})
        for name in names or [None]
    ]
    with progress() as report:
        asked = (own["rounds"], own["timed_steps"])
        found = compare_estimate(configurations, *asked, report)
    print(
        f"{found['task']}, preset {found['preset']}: seconds of a training step, estimated by "
        f"rates of {found['device']} and measured under the engine, in {own['rounds']} rounds by "
        f"turns of {own['timed_steps']} steps; medians"
    )
    for row in found["models"]:
        low, high = min(row["ratios"]), max(row["ratios"])
        verdict = "within" if row["within"] else "NOT within"
        print(
            f"  {row['label']:16} estimated {row['estimated_seconds']:.3f}, measured "
            f"{row['measured_seconds']:.3f}: ratio {row['ratio']:.2f} ({low:.2f} to {high:.2f}), "
            f"{verdict} a factor of {found['within']:g}"
        )
    _save(found, own["output"])


def _save(found: dict[str, Any], output: Any) -> None:
    if output is not None:
        from core.files import write_atomically
        from core.places import absolute

        content = json.dumps(found, indent=1) + "\n"
        write_atomically(absolute(str(output)), content.encode())


if __name__ == "__main__":
    command(main)
