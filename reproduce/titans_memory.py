"""Memory that learns while it is used: Titans' neural memory beside every other memory here."""

from __future__ import annotations

from bench.reproduction import Reproduction
from reproduce.titans_claims import CLAIMS, README, TITANS
from reproduce.titans_figure import TITLE, curves, draw, table
from reproduce.titans_records import plan, select, variant_of

REPRODUCTION = Reproduction(
    title=TITLE,
    source=f"{TITANS}; {README}",
    plan=plan,
    select=select,
    variant=variant_of,
    varied=("tasks.material", "tasks.experiments"),
    draw=draw,
    curves=curves,
    table=table,
    claims=CLAIMS,
)
