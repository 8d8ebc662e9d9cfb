"""Requests to the app's server as its page makes them."""

from __future__ import annotations

from happycat.app.discovering import Work

TOKEN, HOST = "s3cret", "127.0.0.1:8123"
ORIGIN = {"origin": f"http://{HOST}", "sec-fetch-site": "same-origin"}


def no_work():
    """Work that does nothing, until a test gives it something to do."""
    return Work(discover=lambda *_: None, propose=lambda *_: None, teach=lambda *_: None)


class Visit:
    """A browser's tab: requests as the page makes them."""

    def __init__(self, client, editor, desk, discoveries):
        self.client, self.editor, self.desk, self.discoveries = client, editor, desk, discoveries

    def get(self, path, **more):
        return self.client.get(f"/{TOKEN}/{path}", **more)

    def post(self, path, values=None, **more):
        headers = {**ORIGIN, **more.pop("headers", {})}
        return self.client.post(f"/{TOKEN}/{path}", json=values or {}, headers=headers, **more)

    def do(self, verb, **values):
        return self.post(f"api/do/{verb}", {"tag": self.state()["tag"], **values})

    def done(self, verb, **values):
        """The state after an action that must be done."""
        answer = self.do(verb, **values)
        assert answer.status_code == 200, answer.text
        return self.state()

    def state(self):
        return self.get("api/state").json()
