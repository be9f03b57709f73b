"""Where the GPT-2 merges come from: tiktoken's cache, its server, or the package registry.

tiktoken keeps its files in ``$TIKTOKEN_CACHE_DIR`` under the SHA-1 of their addresses and checks
their content. Its encoding ``r50k_base`` has the ids of GPT-2 in one file, and the package
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
GPT2_ADDRESSES = tuple(
    f"https://openaipublic.blob.core.windows.net/gpt-2/encodings/main/{name}"
    for name in ("vocab.bpe", "encoder.json")
)
PACKAGE = (
    "openai-whisper==20250625 "
    "--hash=sha256:37a91a3921809d9f44748ffc73c0a55c9f366c85a3ef5c2ae0cc09540432eb96"
)
PACKAGED_FILE = "whisper/assets/gpt2.tiktoken"
CONNECT_SECONDS, REGISTRY_SECONDS = 10, 180


def load_encoding() -> Encoding:
    """tiktoken's encoding of the 50,257 ids of GPT-2, from the first source that has it.

    Raises:
        TextError: no source has it; the sentence says which file to place where.
    """
    import tiktoken

    folder = cache_folder()
    if all((folder / _cache_name(address)).exists() for address in GPT2_ADDRESSES):
        return tiktoken.get_encoding("gpt2")
    target = folder / _cache_name(ADDRESS)
    if not target.exists():
        for source in (_installed, _downloaded, _from_registry):
            ranks = source()
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
    for variable in ("TIKTOKEN_CACHE_DIR", "DATA_GYM_CACHE_DIR"):
        if os.environ.get(variable):
            return Path(os.environ[variable])
    return Path(tempfile.gettempdir()) / "data-gym-cache"


def _cache_name(address: str) -> str:
    return hashlib.sha1(address.encode()).hexdigest()


def _keep(ranks: bytes, target: Path) -> None:
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
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
