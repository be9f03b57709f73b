"""``python -m leaderboards.submit``: records as a folder that can be sent as a pull request."""

from __future__ import annotations

from functools import partial

from core.errors import OK, UserError, command
from core.words import command_line
from leaderboards.arguments import Arguments, read

STATED = {
    "who": "who made the runs: a name",
    "contact": "where a question reaches you: a page or an address",
    "licence": "of records and weights, such as CC-BY-4.0",
    "training_data": "what the models were trained on, in a sentence",
    "contamination": "what they may have seen of the test, in a sentence",
}

HELP = """\
usage: python -m leaderboards.submit RUN_ID|FILE ... to=FOLDER KEY=TEXT ... [store=FOLDER]

Checks each record as `leaderboards.add` does and writes a folder that can be sent as a pull
request, below leaderboards/submissions: records, weights up to 10 MiB, and submission.yaml with
what you say. docs/submit.md tells what becomes of it.

  to=FOLDER          a new folder, such as leaderboards/submissions/NAME
  who= contact= licence= training_data= contamination=
                     each is needed; quote a text with blanks: "who=Ada Lovelace"
  source=ADDRESS     where the code of a model of your own is to be read
  tuning_trials=N    settings that you tried, if more than the records' studies say
  weights=ADDRESS    where larger weights are to be had, RUN_ID.safetensors below it
  store=FOLDER       where the runs are (default runs)
example: python -m leaderboards.submit runs/records/*.json to=leaderboards/submissions/ada …"""


SETTINGS = (*STATED, "to", "source", "weights", "tuning_trials", "store")


def send_records(arguments: Arguments) -> int:
    """Check the records, then write the folder, its statement last."""
    if not arguments.names:
        raise UserError("name at least one record: RUN_ID or FILE; --help explains")
    missing = [key for key in ("to", *STATED) if key not in arguments.settings]
    if missing:
        meaning = STATED.get(missing[0], "the folder that is to be written")
        example = " ".join(f"{key}=…" for key in missing)
        raise UserError(f"{missing[0]}= is missing ({meaning}): give {example}")
    from leaderboards.verification import sending, submission

    for key in ("training_data", "contamination"):
        if len(text := arguments.one(key, "")) < submission.LEAST_STATED:
            raise UserError(
                f"{key}={text} says too little: a reader has to learn {STATED[key]}, of "
                f"{submission.LEAST_STATED} characters or more"
            )
    trials = arguments.one("tuning_trials", "0")
    if not trials.isdecimal():
        raise UserError(f"tuning_trials={trials} is no number: give how many settings were tried")
    sending.send(
        arguments.names,
        store=arguments.place("store", "runs"),
        target=arguments.place("to", ""),
        stated={key: arguments.one(key, "") for key in STATED},
        tuning_trials=int(trials) if "tuning_trials" in arguments.settings else None,
        source_address=arguments.one("source", ""),
        weights_address=arguments.one("weights", ""),
    )
    return OK


ELSEWHERE = {"records": "name each record by its run id, with store=FOLDER, or by its file"}
READ = partial(read, settings=SETTINGS, takes_names=True, elsewhere=ELSEWHERE)
main = command_line(HELP, READ, send_records)


if __name__ == "__main__":
    command(main)
