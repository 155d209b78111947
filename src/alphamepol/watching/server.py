"""The server of the page: what it answers, to whom, and how it is started and ended."""

import hmac
import ipaddress
import json
import re
import secrets
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from alphamepol.errors import InputError
from alphamepol.watching.follower import Follower
from alphamepol.watching.shown_places import ShownPlaces

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

RESOURCES = {
    "": ("watch.html", "text/html"),
    "watch.css": ("watch.css", "text/css"),
    "watch.js": ("watch.js", "text/javascript"),
    "charts.js": ("charts.js", "text/javascript"),
    "watch-places.js": ("watch-places.js", "text/javascript"),
}
"""The files of the page by their addresses below the token, with their types."""
HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "cache-control": "no-store",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
}
"""The headers of every answer: a browser loads nothing from elsewhere, keeps nothing, and shows no page in a frame."""
MOST_ASKED = 8
"""The most runs whose curves are sent in one answer."""
MOST_CONNECTIONS = 200
"""The most connections at the same time."""
PATIENCE = 2.0
"""The seconds that the server has to end."""
_HOST = re.compile(r"(\[[0-9a-f:.]+\]|[a-z0-9._-]+)(:[0-9]{1,5})?", re.IGNORECASE | re.ASCII)
_ASKED = re.compile(r"([0-9a-f]{12})\.([0-9]{1,9})\.([0-9]{1,9})\.([a-z0-9-]{0,40})", re.ASCII)
LOOPBACK = "127.0.0.1", "localhost", "::1"


class PageServer:
    """A server of one page in a thread. It has its own token, without which it answers nothing."""

    def __init__(self, follower: Follower, places: ShownPlaces, host: str, port: int):
        try:
            import uvicorn
        except ImportError as error:
            raise missing_watch_extra() from error
        listening = listening_socket(host, port)
        self.token = secrets.token_urlsafe(24)
        shown = socket.gethostname() if host in ("0.0.0.0", "::") else host
        named = f"[{shown}]" if ":" in shown else shown
        self.address = f"http://{named}:{listening.getsockname()[1]}/{self.token}/"
        config = uvicorn.Config(
            guarded_page(follower, places, self.token, host),
            http="h11",
            ws="none",
            lifespan="off",
            log_config=None,
            log_level="critical",
            access_log=False,
            proxy_headers=False,
            server_header=False,
            limit_concurrency=MOST_CONNECTIONS,
            timeout_keep_alive=10,
            timeout_graceful_shutdown=1,
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._serve, args=(listening,), name="alphamepol page", daemon=True)
        self._thread.start()

    def _serve(self, listening: socket.socket) -> None:
        with listening, suppress(Exception):
            self._server.run([listening])

    def wait(self) -> None:
        """Wait until the server has ended."""
        self._thread.join()

    def close(self) -> None:
        """End the server."""
        self._server.should_exit = True
        self._thread.join(PATIENCE)


def missing_watch_extra() -> InputError:
    return InputError('watch: the page needs starlette and uvicorn; install them with pip install "alphamepol[watch]"')


def listening_socket(host: str, port: int) -> socket.socket:
    """Return a socket that listens. Raises an `InputError` if this is not possible."""
    if not 0 <= port <= 65535:
        raise InputError(f"port: {port} was given; choose one from 1 to 65535, or 0 for any that is free")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
        listening.listen(128)
    except (OSError, UnicodeError) as error:
        listening.close()
        if isinstance(error, socket.gaierror | UnicodeError):
            raise InputError(f"host: {host!r:.80} is not an address of this machine") from error
        cure = "choose another --host or --port; port 0 is any that is free"
        raise InputError(f"port: cannot listen on {host}, port {port} ({error}); {cure}") from error
    return listening


def guarded_page(follower: Follower, places: ShownPlaces, token: str, host: str) -> "ASGIApp":
    """Return the application. Only requests with the token, and for this machine, get past its guard."""
    try:
        from starlette.applications import Starlette
        from starlette.concurrency import run_in_threadpool
        from starlette.responses import Response
        from starlette.routing import Mount, Route
    except ImportError as error:
        raise missing_watch_extra() from error

    def resource(name: str, kind: str) -> "Callable[[Request], Any]":
        content = files("alphamepol.pages").joinpath(name).read_bytes()

        async def answer(_: "Request") -> "Response":
            return Response(content, media_type=kind)

        return answer

    async def news(request: "Request") -> "Response":
        asked = request.query_params.getlist("of")[:MOST_ASKED]
        found = await run_in_threadpool(news_of_runs, follower, places, asked)
        return Response(json.dumps(found, separators=(",", ":"), allow_nan=False), media_type="application/json")

    routes = [Route(f"/{address}", resource(*of)) for address, of in RESOURCES.items()]
    page = Starlette(routes=[Mount(f"/{token}", routes=[*routes, Route("/news", news)])])
    return Guard(page, token, host)


def news_of_runs(follower: Follower, places: ShownPlaces, asked: list[str]) -> dict[str, Any]:
    """Return all runs with their progress, and of the runs that are `asked` for the curves and places that are new.

    A text in `asked` is the key of a run, then the generation and the number of the points that the viewer has, and the
    version of its places, with dots in between.
    """
    follower.advance()
    found: dict[str, Any] = {}
    for one in asked:
        words = _ASKED.fullmatch(one)
        run = words and follower.run(words[1])
        if words and run:
            shown = places.newest(run)
            if shown["version"] == words[4]:
                del shown["picture"]
            found[run.key] = {
                "curves": follower.curves_since(run.key, int(words[2]), int(words[3])),
                "places": shown,
            }
    return {"runs": follower.summarise(), "notice": follower.notice, "of": found}


class Guard:
    """The guard before the application. It refuses requests with an empty answer, and adds headers to all answers."""

    def __init__(self, page: "ASGIApp", token: str, host: str):
        self._page, self._token, self._host = page, token.encode(), host

    async def __call__(self, scope: "Scope", receive: "Receive", send: "Send") -> None:
        if scope["type"] != "http":
            return

        async def send_with_headers(message: "Message") -> None:
            if message["type"] == "http.response.start":
                own = [(name.encode(), value.encode()) for name, value in HEADERS.items()]
                message = {**message, "headers": [*message["headers"], *own]}
            await send(message)

        if status := self._refuses(scope):
            start = {"type": "http.response.start", "status": status, "headers": [(b"content-length", b"0")]}
            await send_with_headers(start)
            await send({"type": "http.response.body", "body": b""})
        else:
            await self._page(scope, receive, send_with_headers)

    def _refuses(self, scope: "Scope") -> int:
        """Return the status with which a request is refused; 0 if it is not."""
        hosts = [value.decode("latin-1") for name, value in scope["headers"] if name == b"host"]
        if len(hosts) != 1 or not host_is_here(hosts[0], self._host):
            return 403
        given = scope["path"].encode(errors="surrogatepass")[1:].partition(b"/")[0]
        if not hmac.compare_digest(given, self._token):
            return 403
        return 0 if scope["method"] in ("GET", "HEAD") else 405


def host_is_here(header: str, host: str) -> bool:
    """Tell whether a Host header names this machine. A page of others whose name leads here has its own name there.

    `host` is the address that the server listens on. Any port is right, because a tunnel may have another one.
    """
    found = _HOST.fullmatch(header)
    if not found:
        return False
    name = found[1].strip("[]").lower()
    if name in LOOPBACK or name == host.lower():
        return True
    if host in ("0.0.0.0", "::"):  # the server listens everywhere
        with suppress(ValueError):
            return bool(ipaddress.ip_address(name))  # no name leads here, so that nobody can have redirected one
        return name in (socket.gethostname().lower(), socket.getfqdn().lower())
    return False
