"""Serving the app on this computer only: address, browser, and the end with Ctrl-C."""

from __future__ import annotations

import socket
import threading
import webbrowser
from collections.abc import Callable
from pathlib import Path
from typing import Any

import uvicorn

from happycat.app.desk import Desk
from happycat.app.discovering import Discoveries, Work
from happycat.app.guard import new_token
from happycat.app.routes import make_app
from happycat.base.errors import InputError
from happycat.model.editor import Editor

LOOPBACK = "127.0.0.1"


class Server(uvicorn.Server):
    """A server that says when it listens and leaves Ctrl-C to the command."""

    def __init__(self, config: uvicorn.Config, started: Callable[[], None]):
        super().__init__(config)
        self._said = started

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._said()


def serve(
    model: Path,
    work: Work,
    *,
    inbox: Path | None = None,
    port: int = 0,
    browser: bool = True,
    ready: Callable[[str], None] = print,
) -> None:
    """Serve the app of a model until Ctrl-C; `ready` gets its address when it listens."""
    with listening(port) as own:
        desk = Desk(Editor(model))
        discoveries, token, port = Discoveries(desk, work), new_token(), own.getsockname()[1]
        address = f"http://{LOOPBACK}:{port}/{token}/"
        if inbox is not None and not _was_discovered(desk, inbox):
            discoveries.begin(inbox)

        def started() -> None:
            ready(address)
            if browser:
                threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()

        app: Any = make_app(desk, discoveries, token, port)
        config = uvicorn.Config(app, log_level="error", access_log=False, lifespan="off", server_header=False)
        config.timeout_graceful_shutdown = 2
        try:
            Server(config, started).run(sockets=[own])
        finally:
            desk.job.cancel(wait=10)


def listening(port: int) -> socket.socket:
    """A socket of this computer's own address, at the port or, with 0, at a free one."""
    own = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    own.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        own.bind((LOOPBACK, port))
    except OSError as error:
        own.close()
        raise InputError(f"port {port} cannot be used ({error.strerror}); give another one, or none") from error
    return own


def _was_discovered(desk: Desk, inbox: Path) -> bool:
    """Whether the inbox is what the model discovered last."""
    review = desk.review
    return review is not None and review.root == inbox.expanduser().resolve()
