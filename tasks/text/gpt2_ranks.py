"""Where the GPT-2 merges come from: tiktoken's cache, its server, or the package registry.

tiktoken keeps its files in ``$TIKTOKEN_CACHE_DIR`` under the SHA-1 of their addresses. It deletes
a damaged one and waits for its server, so the files are checked here before it sees them. Its
encoding ``r50k_base`` has the ids of GPT-2 in one file, and the package
``openai-whisper`` carries the same file, so that a machine which reaches only a package registry
has the tokenizer as well.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import subprocess
import sys
import tarfile
import tempfile
import urllib.request
from http.client import HTTPException
from pathlib import Path
from typing import TYPE_CHECKING

from tasks.text.errors import TextError

if TYPE_CHECKING:
    from tiktoken import Encoding

ADDRESS = "https://openaipublic.blob.core.windows.net/encodings/r50k_base.tiktoken"
SHA256 = "306cd27f03c1a714eca7108e03d66b7dc042abe8c258b44c199a7ed9838dd930"
GPT2_FOLDER = "https://openaipublic.blob.core.windows.net/gpt-2/encodings/main"
GPT2_FILES = {
    f"{GPT2_FOLDER}/vocab.bpe": "1ce1664773c50f3e0cc8842619a93edc4624525b728b188a9e0be33b7726adc5",
    f"{GPT2_FOLDER}/encoder.json": (
        "196139668be63f3b5d6574427317ae82f612a97c5d1cdaf36ed2256dbf636783"
    ),
}
CACHE_VARIABLES = ("TIKTOKEN_CACHE_DIR", "DATA_GYM_CACHE_DIR")
PACKAGE = (
    "openai-whisper==20250625 "
    "--hash=sha256:37a91a3921809d9f44748ffc73c0a55c9f366c85a3ef5c2ae0cc09540432eb96"
)
PACKAGED_FILE = "whisper/assets/gpt2.tiktoken"
CONNECT_SECONDS, REGISTRY_SECONDS = 10, 180


def load_encoding() -> Encoding:
    """tiktoken's encoding of the 50,257 ids of GPT-2, from the first source that has it.

    Raises:
        TextError: no source has it, or a file in the user's cache is damaged; the sentence says
            which file to place where.
    """
    import tiktoken

    if all(_is_cached(address, sha256) for address, sha256 in GPT2_FILES.items()):
        return tiktoken.get_encoding("gpt2")
    target = cache_folder() / _cache_name(ADDRESS)
    if not _is_cached(ADDRESS, SHA256):
        for source in (_installed, _downloaded, _from_registry):
            ranks = source()
            # Whoever it comes from, only the file with this hash is taken.
            if ranks is not None and hashlib.sha256(ranks).hexdigest() == SHA256:
                _keep(ranks, target)
                break
        else:
            raise TextError(
                "the GPT-2 tokenizer was found neither in tiktoken's cache nor on its server nor "
                f"in the package registry: download {ADDRESS} elsewhere and place it as {target}, "
                "or choose the grammar tokenizer"
            )
    return tiktoken.get_encoding("r50k_base")


def cache_folder() -> Path:
    """The folder in which tiktoken looks for its files."""
    for variable in CACHE_VARIABLES:
        if os.environ.get(variable):
            return Path(os.environ[variable])
    return Path(tempfile.gettempdir()) / "data-gym-cache"


def _is_cached(address: str, sha256: str) -> bool:
    """Whether the whole file is there; a damaged one of the user's own folder is refused."""
    path = cache_folder() / _cache_name(address)
    try:
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
    except FileNotFoundError:
        return False
    if digest == sha256:
        return True
    # A temporary folder may hold a download that was cut off; a folder of the user's is theirs.
    if any(map(os.environ.get, CACHE_VARIABLES)):
        raise TextError(
            f"the file {path} of the GPT-2 tokenizer is damaged: delete it, or put {address} in "
            f"its place (SHA-256 expected: {sha256}, found: {digest})"
        )
    return False


def _cache_name(address: str) -> str:
    return hashlib.sha1(address.encode()).hexdigest()


def _keep(ranks: bytes, target: Path) -> None:
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        # Renamed into place: two processes at once both leave a whole file.
        with tempfile.NamedTemporaryFile(dir=target.parent, delete=False) as file:
            file.write(ranks)
        Path(file.name).replace(target)
    except OSError as error:
        raise TextError(
            f"the GPT-2 tokenizer cannot be kept in {target.parent} ({error.strerror}): set "
            "TIKTOKEN_CACHE_DIR to a folder that can be written"
        ) from error


def _installed() -> bytes | None:
    """The file of an installed openai-whisper, which is not imported."""
    package = importlib.util.find_spec("whisper")
    for place in (package and package.submodule_search_locations) or ():
        file = Path(place).parent / PACKAGED_FILE
        if file.exists():
            return file.read_bytes()
    return None


def _downloaded() -> bytes | None:
    # tiktoken itself would wait for ever behind a firewall that swallows packets.
    try:
        with urllib.request.urlopen(ADDRESS, timeout=CONNECT_SECONDS) as answer:
            return answer.read()
    except (OSError, HTTPException):
        return None


def _from_registry() -> bytes | None:
    """The file inside the source archive of openai-whisper, fetched by pip and not installed."""
    with tempfile.TemporaryDirectory() as folder:
        wanted = Path(folder) / "requirements.txt"
        wanted.write_text(PACKAGE + "\n")
        words = ["download", "--no-deps", "--quiet", "--disable-pip-version-check"]
        words += ["--dest", folder, "--requirement", str(wanted)]
        # A process of its own: pip has no interface for programs.
        try:
            subprocess.run(
                [sys.executable, "-m", "pip", *words],
                check=True,
                capture_output=True,
                timeout=REGISTRY_SECONDS,
            )
        except (OSError, subprocess.SubprocessError):
            return None
        for archive in Path(folder).glob("*.tar.gz"):
            with tarfile.open(archive) as content:
                for member in content:
                    if member.name.endswith(PACKAGED_FILE):
                        file = content.extractfile(member)
                        return file.read() if file else None
    return None
