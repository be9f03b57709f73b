import core as core
from bench.surface import examine_model as examine_model
from bench.surface import load_model as load_model
from bench.surface import load_preset as load_preset
from bench.surface import load_run as load_run
from bench.surface import load_task as load_task
from bench.surface import read_records as read_records
from bench.surface import run as run
from bench.surface import run_sweep as run_sweep
from bench.training.unfit import UnfitModel as UnfitModel
from core.errors import UserError as UserError
from leaderboards.surface import read_board as read_board
from reproduce.claims.grammar import Number as Number
from reproduce.claims.grammar import Runs as Runs
from reproduce.claims.grammar import above as above
from reproduce.claims.grammar import within as within
from reproduce.claims.surface import judge as judge

__all__ = [
    "Number",
    "Runs",
    "UnfitModel",
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
