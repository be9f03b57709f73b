"""Memory that learns while it is used: Titans' neural memory beside every other memory here."""

from __future__ import annotations

from reproduce.reproduction import Reproduction
from reproduce.test_time_memory.claims import CLAIMS, README, TITANS
from reproduce.test_time_memory.figure import TITLE, panels, table
from reproduce.test_time_memory.runs import plan, select, variant_of

SOURCE = f"{TITANS}; {README}"
VARIED = ("tasks.material", "tasks.experiments")
REPRODUCTION = Reproduction(
    TITLE, SOURCE, plan, select, CLAIMS, panels, variant_of, varied=VARIED, table=table
)
