"""Drives a running app from another program: lists the new classes, and names one of them.

    happycat app shop.cat --no-browser                  # prints the app's address
    python examples/app_client.py ADDRESS               # the new classes, each with its likeliest images
    python examples/app_client.py ADDRESS 12 "red panda"

The app answers in JSON and needs nothing but the address, which holds a token. A change must say which version it is
made to (`tag`), so that nothing is changed that somebody else has just changed, and where it comes from (`Origin`).
"""

from __future__ import annotations

import json
import sys
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import Request, urlopen


class App:
    """The app at an address."""

    def __init__(self, address: str):
        self.address = address.rstrip("/")
        parts = urlsplit(address)
        self.origin = f"{parts.scheme}://{parts.netloc}"

    def get(self, path: str) -> Any:
        with urlopen(f"{self.address}/api/{path}") as answer:
            return json.load(answer)

    def do(self, verb: str, **values: Any) -> Any:
        """Correct the model; what changed of the state is returned. It is a version on disk by then."""
        body = json.dumps({"tag": self.get("state")["tag"], **values}).encode()
        headers = {"Content-Type": "application/json", "Origin": self.origin}
        try:
            with urlopen(Request(f"{self.address}/api/do/{verb}", body, headers)) as answer:
                return json.load(answer)
        except HTTPError as error:
            raise SystemExit(json.load(error)["error"]) from None


def main() -> None:
    address, *words = sys.argv[1:]
    app = App(address)
    if words:
        state = app.do("name", which=int(words[0]), name=words[1])
        print(f"version {state['version']}: {state['history'][-1]['what']}")
        return
    state = app.get("state")
    images = app.get(f"images/{state['review']['id']}")
    for one in state["classes"]:
        if one["kind"] == "new":
            print(
                f"#{one['id']} {one['label']}, {one['images']} images:",
                *[images["path"][i] for i in one["typical"][:3]],
            )


if __name__ == "__main__":
    main()
