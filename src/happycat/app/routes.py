"""Routes of the local web app: the page and its scripts, the state as JSON, actions, pictures, discoveries."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from importlib.resources import files
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from happycat.app.desk import Desk, StaleError
from happycat.app.discovering import Discoveries
from happycat.app.guard import Guard
from happycat.app.pictures import Thumbnails, image_path, large
from happycat.app.preview import Preview
from happycat.app.proposals import Proposals
from happycat.app.state import review_id
from happycat.base.errors import HappycatError, InputError, InUseError
from happycat.base.version import __version__
from happycat.report.charts import Number
from happycat.report.html import render_number, render_template

BODY = 2_000_000  # bytes of a request at most; the numbers of 200,000 images are fewer
TYPES = {"js": "text/javascript", "css": "text/css", "svg": "image/svg+xml"}
KEEP = "private, max-age=31536000, immutable"  # of a picture: its address names the discovery


class Answer(JSONResponse):
    """JSON in ASCII: a path may hold bytes that are no UTF-8."""

    def render(self, content: Any) -> bytes:
        return json.dumps(content, allow_nan=False, separators=(",", ":")).encode()


def make_app(desk: Desk, discoveries: Discoveries, token: str, port: int) -> Guard:
    """The app of an open model: ASGI, behind the guard."""
    routes = _Routes(desk, discoveries)
    app = Starlette(
        routes=[
            Route("/", routes.page),
            Route("/static/{name}", routes.static),
            Route("/api/state", routes.state),
            Route("/api/pulse", routes.pulse),
            Route("/api/images/{review}", routes.images),
            Route("/api/candidates/{image:int}", routes.candidates),
            Route("/api/ranked/{which:int}", routes.ranked),
            Route("/api/separation/{which:int}", routes.separation),
            Route("/api/questions", routes.questions),
            Route("/api/number", routes.number),
            Route("/api/number/{number:int}", routes.preview),
            Route("/api/twins", routes.twins),
            Route("/api/proposals", routes.listed),
            Route("/api/proposal/{verb}", routes.propose, methods=["POST"]),
            Route("/api/do/{verb}", routes.act, methods=["POST"]),
            Route("/api/discover", routes.discover, methods=["POST"]),
            Route("/api/teach", routes.teach, methods=["POST"]),
            Route("/api/renumber", routes.renumber, methods=["POST"]),
            Route("/api/answer", routes.answer, methods=["POST"]),
            Route("/api/cancel", routes.cancel, methods=["POST"]),
            Route("/api/inbox", routes.new_inbox, methods=["POST"]),
            Route("/api/inbox/file", routes.add_file, methods=["POST"]),
            Route("/thumb/{review}/{image:int}", routes.thumbnail),
            Route("/image/{review}/{image:int}", routes.large),
        ],
        exception_handlers={HappycatError: _refused},
    )
    return Guard(app, token, port)


async def _refused(request: Request, error: Exception) -> Response:
    """One line for the person; 409 if the model is in use, or is another version than the tab shows."""
    conflict = isinstance(error, InUseError | StaleError)
    return Answer({"error": str(error), "stale": isinstance(error, StaleError)}, 409 if conflict else 400)


async def _json(request: Request) -> dict[str, Any]:
    """The body of a request, an object; no more of it is read than may be."""
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > BODY:
            raise InputError(f"a request has {BODY // 1_000_000} MB at most")
    try:
        content = json.loads(body or b"{}")
    except (ValueError, RecursionError):
        content = None
    if not isinstance(content, dict):
        raise InputError("the request is not a JSON object")
    return content


@functools.cache
def _static_files() -> dict[str, Callable[[], bytes]]:
    """The scripts and styles by name, the app's own and those that it shares with the page of a discovery."""
    folders = (files("happycat.report"), files(__package__).joinpath("static"))
    found = [file for folder in folders for file in folder.iterdir() if file.name.rpartition(".")[2] in TYPES]
    return {file.name: file.read_bytes for file in found}


class _Routes:
    """What is answered to each request."""

    def __init__(self, desk: Desk, discoveries: Discoveries):
        self.desk, self.discoveries = desk, discoveries
        self.preview_of, self.proposals = Preview(desk), Proposals(desk)
        self.thumbnails = Thumbnails()

    async def page(self, request: Request) -> Response:
        template = files(__package__).joinpath("app.html").read_text("utf-8")
        return Response(render_template(template, version=__version__), media_type="text/html")

    async def static(self, request: Request) -> Response:
        return self._file(request.path_params["name"])

    def _file(self, name: str) -> Response:
        read = _static_files().get(name)
        if read is None:
            return PlainTextResponse("There is no such file.", 404)
        return Response(read(), media_type=TYPES[name.rpartition(".")[2]])

    def state(self, request: Request) -> Response:
        return Answer(self.desk.state())

    def pulse(self, request: Request) -> Response:
        return Answer(self.desk.pulse())

    def images(self, request: Request) -> Response:
        return Answer(self.desk.images(request.path_params["review"]))

    def candidates(self, request: Request) -> Response:
        return Answer(self.desk.candidates(request.path_params["image"]))

    def ranked(self, request: Request) -> Response:
        return Answer(self.desk.ranked(request.path_params["which"]))

    def separation(self, request: Request) -> Response:
        return Answer(self.desk.summaries.separation(request.path_params["which"]))

    def questions(self, request: Request) -> Response:
        return Answer(self.desk.questions())

    def number(self, request: Request) -> Response:
        """The distribution of the number of new classes, as a drawing; empty if it was given."""
        review = self.desk.review
        number = Number.of(review.count) if review else None
        return Response(render_number(number) if number and number.curve else "", media_type="text/html")

    def preview(self, request: Request) -> Response:
        """What another number of new classes would change, or how far that is computed."""
        return Answer(self.preview_of.of(request.path_params["number"]))

    def twins(self, request: Request) -> Response:
        return Answer({str(one): other for one, other in self.desk.twins().items()})

    def listed(self, request: Request) -> Response:
        return Answer(self.proposals.listed())

    async def propose(self, request: Request) -> Response:
        verbs = {"look": self.proposals.look, "accept": self.proposals.accept, "refuse": self.proposals.refuse}
        if (verb := request.path_params["verb"]) not in verbs:
            raise InputError(f"there is no action {verb!r}")
        return Answer(await run_in_threadpool(verbs[verb], await _json(request)))

    async def teach(self, request: Request) -> Response:
        return Answer(await run_in_threadpool(self.discoveries.teach, await _json(request)))

    async def renumber(self, request: Request) -> Response:
        return Answer(await run_in_threadpool(self.discoveries.renumber, await _json(request)))

    async def answer(self, request: Request) -> Response:
        self.desk.job.answer((await _json(request)).get("yes"))
        return Answer({})

    async def act(self, request: Request) -> Response:
        return Answer(await run_in_threadpool(self.desk.act, request.path_params["verb"], await _json(request)))

    async def discover(self, request: Request) -> Response:
        return Answer(await run_in_threadpool(self.discoveries.start, await _json(request)))

    async def cancel(self, request: Request) -> Response:
        self.desk.job.cancel()
        return Answer({})

    async def new_inbox(self, request: Request) -> Response:
        return Answer(await run_in_threadpool(self.discoveries.new_inbox, await _json(request)))

    async def add_file(self, request: Request) -> Response:
        name = request.query_params.get("name", "")
        return Answer({"refused": await self.discoveries.inbox().add(name, request.stream())})

    def thumbnail(self, request: Request) -> Response:
        return self._picture(request, lambda path, folder: (self.thumbnails.of(path, folder), "image/jpeg"))

    def large(self, request: Request) -> Response:
        return self._picture(request, lambda path, _: large(path))

    def _picture(self, request: Request, make: Callable[..., tuple[bytes, str]]) -> Response:
        wanted = request.path_params["review"]
        looked_at = [one for one in (self.desk.editor, self.proposals.open) if one is not None]
        shown = [(one.review, one.folder) for one in looked_at if one.review and review_id(one.review) == wanted]
        if not shown:
            return PlainTextResponse("That image is of another discovery.", 404)
        review, folder = shown[0]
        try:
            content, kind = make(image_path(review, request.path_params["image"]), folder)
        except HappycatError as error:
            return PlainTextResponse(str(error).encode("utf-8", "replace").decode(), 404)
        return Response(content, media_type=kind, headers={"Cache-Control": KEEP})
