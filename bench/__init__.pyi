import ground as ground
from bench.surface import examine_model as examine_model
from bench.surface import load_model as load_model
from bench.surface import load_preset as load_preset
from bench.surface import load_run as load_run
from bench.surface import load_task as load_task
from bench.surface import read_records as read_records
from bench.surface import run as run
from bench.surface import run_sweep as run_sweep
from ground.errors import UserError as UserError
from judging.grammar import Number as Number
from judging.grammar import Runs as Runs
from judging.grammar import above as above
from judging.grammar import within as within
from judging.surface import judge as judge
from leaderboards.surface import read_board as read_board

__all__ = [
    "Number",
    "Runs",
    "UserError",
    "above",
    "examine_model",
    "judge",
    "load_model",
    "load_preset",
    "load_run",
    "load_task",
    "read_board",
    "read_records",
    "run",
    "run_sweep",
    "within",
]
