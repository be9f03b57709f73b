"""Every job of the project as a nox session; all share one environment, built once.

``nox -s quickstart`` runs the main job and ``nox -s tests`` the tests; both need Python and nox
alone. ``nox -l`` lists the rest; one ``reproduce_*`` session exists for each reproduction.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import nox

ROOT = Path(__file__).resolve().parent
ENVIRONMENT = ROOT / f".env-{sys.version_info.major}.{sys.version_info.minor}"
STAMP = "built-from.sha256"  # its file that says what it was made from
PYTHON = ENVIRONMENT / ("Scripts/python.exe" if os.name == "nt" else "bin/python")

if not (3, 11) <= sys.version_info[:2] <= (3, 13):
    sys.exit(
        f"this project needs Python 3.11 to 3.13, and nox runs on {sys.version.split()[0]}: "
        "python3.12 -m pip install nox, then python3.12 -m nox in its place"
    )

# Where PyTorch without CUDA comes from, and what says that there is a device for CUDA.
CPU_BUILDS = "https://download.pytorch.org/whl/cpu"
NVIDIA = ("/dev/nvidia0", "/dev/nvidiactl", "/dev/dxg")

LINT_IMPORTS = "import sys; from importlinter.cli import lint_imports; sys.exit(lint_imports())"

# By stealing, a worker has tests that are neighbours: what a module makes is mostly made once.
IN_TWO = ("-n", "2", "--dist", "worksteal")
EVERYWHERE = ("-m", "not browser and not cluster")
SHORT = ("-m", "not browser and not cluster and not long")

nox.needs_version = ">=2025.2.9"
nox.options.default_venv_backend = "none"  # nox itself shares no environment between sessions
nox.options.sessions = ["lint", "tests"]

# Settings under which this processor adds in the order of others, as far as its libraries let it.
ELSEWHERE = {
    "no vectors": {"ATEN_CPU_CAPABILITY": "default"},
    "avx2": {"ATEN_CPU_CAPABILITY": "avx2"},
    "compatible": {"MKL_CBWR": "COMPATIBLE"},
    "numpy": {"NPY_DISABLE_CPU_FEATURES": "X86_V3 X86_V4 AVX512_ICL AVX512_SPR"},
    # Threads that wait asleep: those that spin take the cores from the others, and hours.
    "2 threads": {"OMP_NUM_THREADS": "2", "MKL_NUM_THREADS": "2", "OMP_WAIT_POLICY": "PASSIVE"},
    "4 threads": {"OMP_NUM_THREADS": "4", "MKL_NUM_THREADS": "4", "OMP_WAIT_POLICY": "PASSIVE"},
    # Rounding errors that are drawn from a seed, whatever the processor: tests/rounding.py.
    "rounding": {"MEMORY_BENCH_ROUNDING": os.environ.get("MEMORY_BENCH_ROUNDING", "0")},
}
# Under "rounding": the tests that compute with PyTorch and promise no equal bits.
UNPROMISED = ("-m", "not browser and not cluster and not bitwise")
COMPUTING = ("tests/models", "tests/tasks", "tests/bench", "tests/leaderboards/test_derived.py")


def python(session: nox.Session, *words: str, **options: object) -> None:
    """Run a Python command line in the shared environment, building it first where needed."""
    build_environment(session)
    # After the project's own: a package of the user's may be there, with a model of his.
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    settings = {"PYTHONUNBUFFERED": "1", "PYTHONPATH": path, **options.pop("env", {})}  # type: ignore[dict-item]
    session.run(str(PYTHON), *words, external=True, env=settings, **options)


def build_environment(session: nox.Session) -> None:
    """Create the environment, unless what it was made from is unchanged."""
    wanted, stamp = built_from(), ENVIRONMENT / STAMP
    if stamp.exists() and stamp.read_text() == wanted:
        return
    session.log(f"building the shared environment in {ENVIRONMENT.name} (a few minutes, once)")
    if ENVIRONMENT.exists():
        shutil.rmtree(ENVIRONMENT)
    session.run(sys.executable, "-m", "venv", str(ENVIRONMENT), external=True)
    pip = (str(PYTHON), "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
    pins = ("-c", str(ROOT / "constraints.txt"))
    install_torch(session, pip, pins)
    rest = ("-e", f"{ROOT}[test]", *pins)
    if has_uv(pip, pins):
        uv = (str(PYTHON), "-m", "uv", "pip", "install", "--quiet", "--python", str(PYTHON))
        # Bytecode for all of the environment, now: pip makes it unasked, uv leaves it to imports.
        session.run(*uv, "--compile-bytecode", *rest, external=True)
    else:
        session.run(*pip, *rest, external=True)
    stamp.write_text(wanted)


def built_from() -> str:
    """The hash of all that decides what is in the environment."""
    sources = [ROOT / "pyproject.toml", ROOT / "constraints.txt"]
    content = b"".join(path.read_bytes() for path in sources) + sys.version.encode()
    content += b"" if without_nvidia() else b"NVIDIA"  # a device that is added later is used
    return hashlib.sha256(content).hexdigest()


def without_nvidia() -> bool:
    """Whether this is Linux without an NVIDIA device, where the default PyTorch brings gigabytes of
    CUDA for nothing."""
    found = shutil.which("nvidia-smi") or any(Path(sign).exists() for sign in NVIDIA)
    return sys.platform == "linux" and not found


def install_torch(session: nox.Session, pip: tuple[str, ...], pins: tuple[str, ...]) -> None:
    """PyTorch with pip, because uv does not look where a machine may keep a local build of it."""
    if without_nvidia():
        words = ("--no-deps", "--retries", "1", "--index-url", CPU_BUILDS)
        tried = subprocess.run([*pip, *pins, *words, "torch"], check=False, capture_output=True)
        if tried.returncode:
            session.log("PyTorch's CPU build cannot be had here: the default build is taken")
    session.run(*pip, *pins, "torch", external=True)  # what is missing of it


def has_uv(pip: tuple[str, ...], pins: tuple[str, ...]) -> bool:
    """Whether uv, several times faster than pip, can be had for the environment."""
    installed = subprocess.run([*pip, *pins, "uv"], check=False, capture_output=True)
    return installed.returncode == 0


@nox.session
def quickstart(session: nox.Session) -> None:
    """Sweep RegBench over five models at preset smoke, reproduce Figure 5, build the board."""
    python(session, "-m", "bench.sweep", "tasks=regbench", "preset=smoke", *session.posargs)
    python(session, "-m", "reproduce", "figure5", "preset=smoke", "committed=false")
    python(session, "-m", "leaderboards.build", "local=true", "skip_refused=true")
    session.log("open the leaderboard with:  nox -s leaderboard")


@nox.session
def tests(session: nox.Session) -> None:
    """The tests, without those that take long or need a browser or a cluster."""
    run_pytest(session, *SHORT, *IN_TWO, *session.posargs)


@nox.session
def long_tests(session: nox.Session) -> None:
    """The tests that take ten seconds or more, or ask every committed record and the board."""
    run_pytest(session, "-m", "long", *IN_TWO, *session.posargs)


@nox.session
@nox.parametrize("machine", list(ELSEWHERE))
def tests_elsewhere(session: nox.Session, machine: str) -> None:
    """The tests as other processors would add: a suite for each, some minutes long."""
    words = (*EVERYWHERE, *session.posargs)
    if machine == "rounding":
        words = (*UNPROMISED, *(session.posargs or COMPUTING))
    run_pytest(session, *IN_TWO, *words, **ELSEWHERE[machine])


@nox.session
def every_model(session: nox.Session) -> None:
    """The tests that take one model of each class, or its variants with one kind of sequence, on
    every YAML file of models/ and every kind."""
    engine = ("training/test_checkpoints.py", "writing/test_generation.py")
    places = (*(f"tests/bench/{name}" for name in engine), "tests/models/test_conformance.py")
    run_pytest(session, *places, "-n", "2", *session.posargs, MEMORY_BENCH_EVERY_MODEL="1")


@nox.session
def browser_tests(session: nox.Session) -> None:
    """The tests that open the leaderboard in Chromium; skipped where none is installed."""
    run_pytest(session, "-m", "browser", *session.posargs)


@nox.session
def kills(session: nox.Session) -> None:
    """kill -9 of trainings and sweeps at random moments, 20 minutes on two cores; -- seed=N."""
    python(session, "-m", "tests.kills", *session.posargs)


@nox.session
def cluster(session: nox.Session) -> None:
    """Sweeps on a Ray cluster of three nodes, and by two drivers; parts of them are killed."""
    build_environment(session)
    pip = (str(PYTHON), "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
    pins = ("-c", str(ROOT / "constraints.txt"))
    session.run(*pip, "-e", f"{ROOT}[cluster]", *pins, external=True)  # Ray is not in the others
    run_pytest(session, "-m", "cluster", *session.posargs)


@nox.session
def kernels(session: nox.Session) -> None:
    """The Triton kernels of [gpu]: interpreted on a CPU, and compiled for a GPU."""
    build_environment(session)
    folder = ENVIRONMENT / "kernels"  # beside the environment's own: no other session meets them
    if not folder.exists():
        pip = (str(PYTHON), "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
        place = ("--no-deps", "--target", str(folder), "-c", str(ROOT / "constraints.txt"))
        session.run(*pip, *place, "einops", "fla-core", "triton", external=True)
    own = {"TRITON_INTERPRET": "1", "PYTHONPATH": os.pathsep.join((str(ROOT), str(folder)))}
    tests = ("linear/test_linear_kernels.py", "layers/test_leaky_average.py")
    run_pytest(session, *(f"tests/models/{name}" for name in tests), *session.posargs, **own)


@nox.session
def guests(session: nox.Session) -> None:
    """Public packages as models: the recipes of docs/guests.md, each trained for a few steps."""
    build_environment(session)
    wanted = ROOT / "tests" / "guests_requirements.txt"
    folder = ENVIRONMENT / "guests"  # beside the environment's own: no other session meets them
    stamp = folder / STAMP
    content = hashlib.sha256(wanted.read_bytes()).hexdigest()
    if not stamp.exists() or stamp.read_text() != content:
        shutil.rmtree(folder, ignore_errors=True)
        pip = (str(PYTHON), "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
        place = ("--no-deps", "--target", str(folder))
        lines = [line for line in wanted.read_text().splitlines() if not line.startswith("#")]
        lost = [
            line for line in lines if subprocess.run([*pip, *place, line], check=False).returncode
        ]
        for line in lost:
            session.log(f"{line} cannot be installed here: recipes that import it are not run")
        if not lost:
            stamp.write_text(content)
    own = {"PYTHONPATH": os.pathsep.join((str(ROOT), str(folder))), "OMP_NUM_THREADS": "1"}
    python(session, "-m", "tests.guests_page", *session.posargs, env=own)


@nox.session
def board_growth(session: nox.Session) -> None:
    """What a board of 8,100 records costs to make, renew and read; -- records=40500."""
    python(session, "-m", "tests.board_growth", *session.posargs)


@nox.session
def fuzz(session: nox.Session) -> None:
    """Hostile files and command lines, and 200 flipped bits of each kind of file; -- minutes=10."""
    python(session, "-m", "tests.fuzz", *session.posargs)
    run_pytest(session, "-k", "flipped_bit or changed_bit", "-n", "2", MEMORY_BENCH_FLIPS="200")


def run_pytest(session: nox.Session, *words: str, **changes: str) -> None:
    """Pytest with one thread per process, so that two workers fit two cores."""
    settings = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", **changes}
    python(session, "-m", "pytest", *words, env=settings)


@nox.session
def lint(session: nox.Session) -> None:
    """Style, types, and the walls between the rooms (``tool.importlinter`` in pyproject.toml)."""
    python(session, "-m", "ruff", "check", ".")
    python(session, "-m", "ruff", "format", "--check", ".")
    python(session, "-m", "mypy")
    python(session, "-c", LINT_IMPORTS)


@nox.session
def clone_size(session: nox.Session) -> None:
    """What a checkout, a shallow clone and a full clone take, beside what they may take."""
    python(session, "-m", "tests.clone_size")


@nox.session
def leaderboard(session: nox.Session) -> None:
    """Serve the leaderboard of this machine's runs and the committed ones; Ctrl-C stops it."""
    python(session, "-m", "leaderboards.build", "local=true", "skip_refused=true")
    python(session, "-m", "leaderboards.serve", *session.posargs)


@nox.session
def verify(session: nox.Session) -> None:
    """How far a record or a submission can be believed; -- FOLDER, or -- sample=20 seed=1."""
    python(session, "-m", "leaderboards.verify", *session.posargs)


@nox.session
def second_clone(session: nox.Session) -> None:
    """A run that is made and submitted in one clone is verified in another, in a few minutes."""
    python(session, "-m", "tests.second_clone")


@nox.session
def public_packages(session: nox.Session) -> None:
    """Examine pinned packages of this field, and write docs/public_packages.md; it goes on."""
    python(session, "-m", "tests.public_packages", *session.posargs)


@nox.session
def workflow(session: nox.Session) -> None:
    """The workflow for pull requests, line for line, on a true submission; some minutes."""
    python(session, "-m", "tests.workflow")


@nox.session
def evidence(session: nox.Session) -> None:
    """Make the runs that decide the most verdicts an hour; -- preset=laptop workers=2 hours=8."""
    python(session, "-m", "reproduce", "evidence", *session.posargs)


@nox.session
def speed(session: nox.Session) -> None:
    """Steps and tokens per second of the models, interleaved."""
    python(session, "-m", "bench.speed", *session.posargs)


@nox.session
def gpu(session: nox.Session) -> None:
    """What a GPU is wanted for, by the clock; -- minutes=12, or device=cpu for a rehearsal."""
    python(session, "-m", "bench.gpu", *session.posargs)


def add_reproduction(name: str) -> None:
    """A session ``reproduce_<name>`` for one module in reproduce/."""

    @nox.session(name=f"reproduce_{name}")
    def reproduce(session: nox.Session) -> None:
        python(session, "-m", "reproduce", name, *session.posargs)

    reproduce.__doc__ = f"Reproduce {name}; settings follow --, for example -- preset=laptop."


for module in sorted((ROOT / "reproduce").glob("*/[!_]*.py")):
    if "\nEXPERIMENT = " in module.read_text(encoding="utf-8"):  # the others are shared parts
        add_reproduction(module.stem)
