"""``python -m tasks.text.recipe``: write a corpus of tiny stories."""

from __future__ import annotations

import json
import os
import sys
from typing import Any

from tasks.text.recipe import writers
from tasks.text.recipe.collection import CollectionJob, collect
from tasks.text.recipe.errors import RecipeError, WriterError
from tasks.text.recipe.progress import progress
from tasks.text.recipe.prompts import Lists, load_lists
from tasks.text.recipe.settings import RecipeSettings, parse

INTERRUPTED = 130

HELP = """\
python -m tasks.text.recipe writer=endpoint|transformers|grammar stories=N out=FOLDER [KEY=VALUE …]

Write N tiny stories after the recipe of BabiStories (Memory Mosaics, appendix B, Figure 11): every
prompt asks for a verb, a noun, an adjective, features, a first name and opening words; comments
are cut from the answers; stories with URLs, brackets, markup or unusual symbols, and duplicates,
are dropped. The same command goes on after any stop, and asks for nothing twice; a larger N adds.

  writer=endpoint        an OpenAI-compatible server (needs address= and model=)
  writer=transformers    a model of the transformers library (needs model=)
  writer=grammar         the project's own story grammar, which reads no prompts
  stories=N              how many stories to keep after the filters
  out=FOLDER             gets stories.jsonl (read it as corpus=local), prompts.jsonl (what was
                         asked, who answered, the verdict), report.json (Table 1), answers.jsonl
  address=http://HOST:PORT/v1   of the endpoint
  model=NAME             as the endpoint names it; or a local folder or a name of the hub
  key_variable=NAME      environment variable that holds the key (default OPENAI_API_KEY; a server
                         without keys needs none)
  workers=N              questions asked at the same time (default 4; endpoint only)
  retries=N              tries after the first, with growing pauses (default 5)
  timeout=SECONDS        for one answer (default 120)
  seed=N                 prompt i depends on seed and i alone (default 0)
  names=FILE             own first names, one in each line
  openings=FILE          own openings of 1 to 12 words, one in each line
  words=FILE             own words: YAML with the lists nouns, verbs and adjectives
  tokenizer=gpt2|grammar counts the tokens (default grammar for writer=grammar, else gpt2)

exit codes: 0 done, 1 stopped by the model or the machine, 2 a mistake in the command,
130 interrupted"""


def main(words: list[str]) -> int:
    """Run the command; the exit code."""
    if not words or any(word in ("-h", "--help", "help") for word in words):
        print(HELP)
        return 0 if words else 2

    go_on = "the same command goes on from there"
    try:
        settings = parse(words)
    except RecipeError as error:
        return _say(str(error), error.exit_code)
    try:
        facts = _run(settings)
    except WriterError as error:
        return _say(f"{error}; {_kept(settings)}, {go_on}", error.exit_code)
    except RecipeError as error:
        return _say(str(error), error.exit_code)
    except KeyboardInterrupt:
        return _say(f"interrupted; {_kept(settings)}, {go_on}", INTERRUPTED)
    except OSError as error:
        place = f" at {error.filename}" if error.filename else ""
        reason = error.strerror or str(error)
        return _say(
            f"{reason}{place}; nothing that was already written is lost: make room or access "
            "there, then give the same command again",
            1,
        )
    print(table(facts))
    print(f"stories: {settings.out / 'stories.jsonl'}")
    return 0


def _say(sentence: str, code: int) -> int:
    print(f"error: {sentence}", file=sys.stderr)
    return code


def _kept(settings: RecipeSettings) -> str:
    try:
        stories = json.loads((settings.out / "report.json").read_bytes())["stories"]
    except (OSError, ValueError, KeyError):
        return f"every answer so far is kept in {settings.out}"
    return f"{stories} of {settings.stories} stories are kept in {settings.out}"


def _run(settings: RecipeSettings) -> dict[str, Any]:
    lists = load_lists(names=settings.names, openings=settings.openings, words=settings.words)
    writer = _writer(settings, lists)
    job = CollectionJob(settings.out, settings.writer, writer.model, settings.seed, lists)
    with progress() as report:
        return collect(job, writer, settings.stories, settings.tokenizer, report)


def _writer(settings: RecipeSettings, lists: Lists) -> writers.Writer:
    if settings.writer == "grammar":
        return writers.GrammarWriter(settings.seed)
    if settings.writer == "transformers":
        return writers.TransformersWriter(lists, model=settings.model, seed=settings.seed)
    return writers.EndpointWriter(
        lists,
        address=settings.address,
        model=settings.model,
        key_variable=settings.key_variable,
        workers=settings.workers,
        retries=settings.retries,
        timeout=settings.timeout,
    )


def table(facts: dict[str, Any]) -> str:
    """The report as lines, in the columns of Table 1."""
    counted = facts["tokens"]
    tokens = "not counted" if counted is None else f"{counted:,}"
    lines = [
        f"stories                {facts['stories']:,} of {facts['answers']:,} answers",
        f"{'tokens (' + facts['tokenizer'] + ')':<22} {tokens}",
        f"characters per story   {facts['characters_per_story']:.0f}",
        f"cut at the limit       {facts['cut_at_limit_of_tokens']:,}",
    ]
    lines += [f"dropped: {reason} {count:,}" for reason, count in facts["dropped"].items() if count]
    if counted is None:
        lines.append(f"tokens are missing: {facts['tokens_missing_because']}")
    return "\n".join(lines)


if __name__ == "__main__":
    try:
        code = main(sys.argv[1:])
        # Inside the block: a broken pipe shows when buffered lines are written.
        sys.stdout.flush()
    except BrokenPipeError:  # the reader of our output, such as `head`, has gone
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 0
    sys.exit(code)
