"""Tune, re-run over seeds and compare models on a task: ``python -m bench.sweep``."""

from __future__ import annotations

from bench.config.command_line import read_with_lists
from core.errors import command
from core.words import SETTINGS_HELP, command_line

# The list of models in the section of the sweep takes the place of the one model of a single run.
_SETTINGS = "\n".join(
    line for line in SETTINGS_HELP.splitlines() if not line.strip().startswith("models=NAME")
)
HELP = f"""\
usage: python -m bench.sweep tasks=TASK ["models=[MODEL,...]"] [key=value ...]

For each model: try settings of the search space, choose one on the validation split, re-run it
over seeds, and report the test split. Every model has the same number of trials, or all settings
of a smaller space. The task's predictors without training are added, and all is printed as one
table.
The same command again runs only what is missing; a larger n_trials goes on from what is there, and
a smaller one chooses among its own first trials. Final records of a setting that is chosen no more
are moved to superseded/ in the store.

sweep:
  "models=[a,b]"         default: those that contend in the task; package.Class and ./FILE.py:Class
                         are of your own. Lists need quotes, because some shells read brackets and
                         braces
  models.parameters=N    each model at the width with about N parameters; models.state_bytes=N: with
                         so many bytes of state; both in a search space too
  n_trials=N             settings tried for each model, each at most once (default: from the task's
                         YAML; all of a grid that sweep.search_space gives, if sampler=grid)
  extend=N               0 (default): off; N: where the best setting of any model lies on an edge of
                         the grid, and n_trials is all of it, all models try the next value there,
                         up to N for each edge
  seeds=N                final runs with seeds 0 .. N-1, after trials with seed 0 (default: from the
                         task's YAML)
  choose_over=all_seeds|first_seed
                         all_seeds (default, but at smoke): the best setting is trained with all
                         seeds, and its mean counts; as long as another one looks better with seed
                         0 than that, it gets all seeds too. first_seed: seed 0 decides
  data_seeds=N           final runs for each of N seeds of the data, with new training seeds
  sampler=random|grid|qmc|tpe
                         default: from the task's YAML;
                         tpe learns from the trials so far; the others are the same settings
                         whatever the number of workers
  workers=N              0: in this process; N: worker processes, one GPU for each; null (default):
                         one for each GPU or CPU core here, and as 0 with one of them, less than ten
                         runs at smoke, sampler=tpe, training.devices=N or executor=ray
  executor=ray           runs go to a Ray cluster: a new one on this machine, that of RAY_ADDRESS
                         or of ray.address=HOST:PORT, as many at a time as it has room for, or
                         workers=N; ray.num_cpus=1 ray.num_gpus=0.25 of each (docs/clusters.md)
  stack=N|auto           null (default): each training alone; N: up to N of equal shapes as one
                         computation, each with the batches and the dropout that it has alone, to
                         the same numbers but for rounding; auto: where that was measured to be
                         faster
  storage=journal|URL    journal: a file in the store; or any database address that Optuna takes
                         (leave passwords to the database's own files or variables); drivers on
                         several machines that name one postgresql:// address share the work
  "sweep.search_space={{training.lr:[1e-3,3e-4],models.layers:[2,4]}}"
                         replaces the task's; a key that only some models have is left out for the
                         others, and a key given by itself, such as training.lr=1e-3, is held fixed
  dry_run=true           run nothing: count the runs without a record, and estimate the models that
                         have some, as if they had no record yet
  device_like=NAME       with dry_run=true: hours and memory on that device, trainings alone and
                         stacked, and how many devices pay: h100, h200, a100, rtx4090, or here

{_SETTINGS}

exit code: 0; 1 when a model has no result, a final run failed or a worker died at one run three
times (the rest is complete, and the same command tries that again)
example: python -m bench.sweep tasks=regbench "models=[gpt2,lstm]" n_trials=4 seeds=3"""


main = command_line(HELP, read_with_lists, "bench.search.sweeping:sweep")


if __name__ == "__main__":
    command(main)
