"""Which visitors the app answers: those who ask for it by a name of this machine.

A page of somebody else can make a browser ask this machine, by a name whose address it changes
meanwhile (DNS rebinding). Such a request carries that name as its Host, and what a foreign page
asks across sites carries that page as its Origin. Both are refused before Streamlit sees them;
Streamlit itself checks Origins alone, and asks a server abroad for the address of this machine
when it does not know one.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from importlib import metadata
from typing import Any
from urllib.parse import urlsplit

from streamlit import net_util

from core.errors import UserError

try:
    from streamlit.web.server.starlette import starlette_server
except ImportError:  # another version of Streamlit
    starlette_server = None  # type: ignore[assignment]

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Message, Receive, Send], Awaitable[None]]  # of ASGI

LOOPBACK = ("localhost", "127.0.0.1", "::1")
REFUSED = 403


class Hosts:
    """Names and addresses by which a server may be asked.

    Args:
        address: what it listens at. At one that is every machine's, such as 0.0.0.0, it may be
            asked by any address, which is no name that somebody could change, and by the names of
            this machine.
        more: further names, such as that of a proxy in front, which may name itself as the Origin
            and this machine as the Host.
    """

    def __init__(self, address: str, more: Iterable[str] = ()) -> None:
        names = {address.lower()}
        is_address = _is_address(address)
        self._any_address = is_address and ipaddress.ip_address(address).is_unspecified
        if self._any_address:
            name = socket.gethostname().lower()
            names |= {name, name.partition(".")[0], f"{name.partition('.')[0]}.local"}
        if self._any_address or address in LOOPBACK:
            names |= {*LOOPBACK}
        self._more = frozenset(name.lower() for name in more)
        self.names = self._more | names

    def allow(self, host: str | None) -> bool:
        """Whether a request may name this host, such as ``localhost:8501``."""
        name = _name(host)
        if not name:
            return False
        return name in self.names or (self._any_address and _is_address(name))

    def allow_origin(self, origin: str, host: str) -> bool:
        """Whether a page of this origin may ask at an allowed host."""
        try:
            asked_from = urlsplit(origin).netloc.lower()
        except ValueError:
            return False
        return asked_from == host.lower() or _name(asked_from) in self._more


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _name(host: str | None) -> str:
    """The name in ``NAME:PORT``, in small letters; "" for what is none."""
    try:
        parts = urlsplit(f"//{host or ''}")
        _ = parts.port  # a number, or no host
    except ValueError:
        return ""
    if parts.path or parts.query or parts.fragment or "@" in parts.netloc:
        return ""
    return (parts.hostname or "").rstrip(".")


class OwnHostsAlone:
    """An application of ASGI that passes on what is asked by an allowed Host, and from that very
    Host where a request says where it comes from."""

    def __init__(self, application: Application, hosts: Hosts) -> None:
        self._application, self._hosts = application, hosts

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        refusal = self._refusal(scope) if scope["type"] in ("http", "websocket") else ""
        if not refusal:
            await self._application(scope, receive, send)
        elif scope["type"] == "websocket":
            await receive()  # its wish to connect
            await send({"type": "websocket.close", "code": 1008, "reason": refusal})
        else:
            text = f"{refusal}\n".encode()
            headers = [(b"content-type", b"text/plain; charset=utf-8")]
            await send({"type": "http.response.start", "status": REFUSED, "headers": headers})
            await send({"type": "http.response.body", "body": text})

    def _refusal(self, scope: Message) -> str:
        headers: dict[bytes, list[bytes]] = {}
        for key, value in scope["headers"]:
            headers.setdefault(key.lower(), []).append(value)
        hosts = [value.decode("latin-1") for value in headers.get(b"host", [])]
        if len(hosts) != 1 or not self._hosts.allow(hosts[0]):
            return "this board is not served by that name: python -m leaderboards.serve hosts=NAME"
        for origin in headers.get(b"origin", []):
            if not self._hosts.allow_origin(origin.decode("latin-1"), hosts[0]):
                return "this board answers no page of another site"
        return ""


class Guard:
    """Puts :class:`OwnHostsAlone` in front of Streamlit, and knows whether that server uses it."""

    def __init__(self, hosts: Hosts) -> None:
        self.stands = False
        self._hosts = hosts

    def put_up(self) -> None:
        """Change how Streamlit makes its application, which has no setting for this, and keep it
        from asking abroad for the address of this machine.

        Raises:
            UserError: this Streamlit is made in another way.
        """
        net_util.get_external_ip = _no_external_address
        make = getattr(starlette_server, "create_starlette_app", None)
        if make is None:
            raise self.other_version()

        def make_guarded(*arguments: Any, **named: Any) -> Any:
            self.stands = True
            return OwnHostsAlone(make(*arguments, **named), self._hosts)

        starlette_server.create_starlette_app = make_guarded

    def other_version(self) -> UserError:
        """Why nothing is served."""
        return UserError(
            f"the board cannot be served by Streamlit {metadata.version('streamlit')}, which would "
            "answer any Host: install the tested version, python -m pip install -c "
            "constraints.txt streamlit"
        )


def _no_external_address() -> None:
    """In place of Streamlit's request to a server on the internet for this machine's address."""
