"""Make one run and write its record: ``python -m bench.train``.

``python -m bench.measure`` is another name of the same command.
"""

from __future__ import annotations

from ground.errors import OK, RUN_FAILED, UserError, command
from ground.words import SETTINGS_HELP, wants_help

HELP = f"""\
usage: python -m bench.train tasks=TASK models=MODEL [key=value ...]

Train one model on one task, evaluate it by the task's protocol and write a run record; or measure
a memory, or another model that a task builds and trains within its own protocol.
The same command again serves the record; a training that was interrupted goes on from its
checkpoint.

{SETTINGS_HELP}

examples: python -m bench.train tasks=regbench models=memory_mosaic preset=smoke seed=0
          python -m bench.train tasks=capacity models=delta_rule preset=smoke seed=0"""


def main(words: list[str]) -> int:
    """Exit code 0, or 1 when the run diverged or failed (its record says why)."""
    if wants_help(words):
        print(HELP)
        return OK
    from bench.search.plan import SHORT_NAMES, warn_of_warmup
    from settings.config import compose, parse
    from settings.network import with_text

    for key in (override.key_or_group for override in parse(words)):
        if key.split(".")[0] in ("sweep", "ray", "dry_run", *SHORT_NAMES):
            raise UserError(f"'{key}' is a setting of bench.sweep; bench.train makes one run")
    configuration = compose(with_text(words))
    warn_of_warmup([configuration])
    from bench.records.report import print_record
    from bench.records.store import COMMITTED, record_path
    from bench.runs.obtain import serve_or_make
    from ground.progress import progress

    with progress() as report:
        record, served = serve_or_make(configuration, report=report)
    if served and record_path(record, configuration.store).is_relative_to(COMMITTED):
        print("nothing to do: this is one of the project's own records (committed=false makes it)")
    elif served:
        print("nothing to do: the record of this very run is there (delete it to evaluate again)")
    print_record(record, configuration.store)
    return OK if record.outcome == "ok" else RUN_FAILED


if __name__ == "__main__":
    command(main)
