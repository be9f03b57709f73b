"""Training steps of a task under the engine, against a plain loop: ``bench.training_speed``."""

from __future__ import annotations

from bench.config.command_line import read
from core.errors import command
from core.words import command_line

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


main = command_line(
    HELP,
    read,
    "bench.timing.settings:TrainingSpeedSettings.of",
    "bench.timing.training_speed:time_training",
)


if __name__ == "__main__":
    command(main)
