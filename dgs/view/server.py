"""The live page on loopback: a page and a stream of events, for clients that have the token.

Nothing is served without the token in the query, to a foreign `Host` (a name that somebody let resolve to this machine), or to a page of
another `Origin`. No part of a request is ever used as the name of a file.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import secrets
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from importlib.util import find_spec
from typing import Any
from urllib.parse import parse_qs

from dgs.errors import MissingPackageError, UsageError
from dgs.view.page_feed import Feed

LOOPBACK = "127.0.0.1"
MOST_CONNECTIONS = 64
HEARTBEAT = 15.0
"""Seconds after which a stream without news sends a comment, so that a lost connection is noticed."""

Scope = dict[str, Any]
Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]


class PortTakenError(UsageError):
    """The port of the page belongs to another process."""

    code = "DGS560"
    template = "cannot listen on {host}:{port}: {problem}"
    fix = "Name another port with --port, or none: then a free one is taken"


def new_token() -> str:
    """Return a random token."""
    return secrets.token_urlsafe(32)


def listening(port: int) -> socket.socket:
    """Return a socket that listens on a port of loopback, on a free one for 0. Raises PortTakenError, MissingPackageError."""
    if any(find_spec(package) is None for package in ("starlette", "uvicorn")):
        raise MissingPackageError(feature="`dgs view`", package="dgs[view]")
    found = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        found.bind((LOOPBACK, port))
        found.listen(MOST_CONNECTIONS)
    except (OSError, OverflowError) as error:
        found.close()
        problem = getattr(error, "strerror", None) or str(error)
        raise PortTakenError(host=LOOPBACK, port=port, problem=problem) from None
    return found


class Guard:
    """Lets a request through only with the token, to our own name, and from our own page."""

    def __init__(self, app: Any, token: str, port: int) -> None:
        self._app = app
        self._token = token.encode()
        self._names = {f"{name}:{port}".encode() for name in (LOOPBACK, "localhost")}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, with 403 if it is refused."""
        if scope["type"] == "http" and not self._is_allowed(scope):
            headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"cache-control", b"no-store")]
            await send({"type": "http.response.start", "status": 403, "headers": headers})
            await send(
                {"type": "http.response.body", "body": b"403: the address that dgs printed has the token\n"}
            )
            return
        await self._app(scope, receive, send)

    def _is_allowed(self, scope: Scope) -> bool:
        headers = [(name.lower(), value) for name, value in scope["headers"]]
        hosts = [value for name, value in headers if name == b"host"]
        origins = [value for name, value in headers if name == b"origin"]
        given = parse_qs(scope["query_string"].decode("latin-1")).get("token", [])
        is_known = len(given) == 1 and hmac.compare_digest(given[0].encode(), self._token)
        is_here = len(hosts) == 1 and hosts[0] in self._names
        return (
            is_known
            and is_here
            and all(o.removeprefix(b"http://") in self._names and b"//" in o for o in origins)
        )


def application(feed: Feed, token: str, port: int) -> Any:
    """Return the ASGI application."""
    from starlette.applications import Starlette
    from starlette.responses import HTMLResponse, StreamingResponse
    from starlette.routing import Route

    async def front(_: Any) -> Any:
        return HTMLResponse(await asyncio.to_thread(feed.page), headers=_headers())

    async def events(request: Any) -> Any:
        return StreamingResponse(
            _messages(feed, request.is_disconnected), media_type="text/event-stream", headers=_headers()
        )

    app = Starlette(routes=[Route("/", front, methods=["GET"]), Route("/events", events, methods=["GET"])])
    return Guard(app, token, port)


def serve(
    feed: Feed, port_socket: socket.socket, token: str, *, is_wanted: Callable[[], bool] = lambda: True
) -> None:
    """Serve the page until a signal comes, or it is no longer wanted."""
    import uvicorn

    app = application(feed, token, port_socket.getsockname()[1])
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        lifespan="off",
        server_header=False,
        log_level="critical",
        limit_concurrency=MOST_CONNECTIONS,
        timeout_graceful_shutdown=1,
    )
    server = _server(uvicorn, config, feed)

    async def all_of_it() -> None:
        watching = asyncio.create_task(feed.follow())
        ending = asyncio.create_task(_end_with(server, is_wanted))
        try:
            await server.serve(sockets=[port_socket])
        finally:
            watching.cancel()
            ending.cancel()

    asyncio.run(all_of_it())


def _server(uvicorn: Any, config: Any, feed: Feed) -> Any:
    """Return a server that ends the open pages before it ends."""

    class Server(uvicorn.Server):  # type: ignore[misc]  # known only where it is installed
        async def shutdown(self, sockets: Any = None) -> None:
            feed.close()
            await super().shutdown(sockets)

    return Server(config)


async def _end_with(server: Any, is_wanted: Callable[[], bool]) -> None:
    while is_wanted():  # noqa: ASYNC110 - a pipe to look at, not an event of ours
        await asyncio.sleep(0.2)
    await asyncio.sleep(1.2)  # until the page has the last moment of the run
    server.should_exit = True


def _headers() -> dict[str, str]:
    from dgs.view.page import policy

    return {
        "Content-Security-Policy": f"{policy()}; frame-ancestors 'none'",
        "X-Content-Type-Options": "nosniff",
        "X-Frame-Options": "DENY",
        "Referrer-Policy": "no-referrer",
        "Cross-Origin-Resource-Policy": "same-origin",
        "Cache-Control": "no-store",
    }


async def _messages(feed: Feed, is_disconnected: Callable[[], Awaitable[bool]]) -> AsyncIterator[str]:
    """Yield the messages of the feed to one page, as server-sent events."""
    with feed.listening() as messages:
        yield "retry: 1000\n\n"
        while True:
            try:
                kind, data = await asyncio.wait_for(messages.get(), HEARTBEAT)
            except TimeoutError:
                if await is_disconnected():
                    return
                yield ": still here\n\n"
                continue
            yield f"event: {kind}\ndata: {json.dumps(data)}\n\n"
            if kind in ("end", "close"):
                return
