"""A server on this machine that speaks the Hub's protocol as far as pushing and loading go."""

import base64
import json
import re
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import NamedTuple

import yaml

TOKEN = "hf_of_me"
ID = re.compile(r"[\w.-]+/[\w.-]+")


class Commit(NamedTuple):
    title: str
    files: dict[str, bytes]  # all of the repository's


class Hub(ThreadingHTTPServer):
    """The Hub of the user `me`, who has the token `TOKEN`. A context manager.

    Attributes:
        asked: Paths of the requests that read.
        repositories: Name -> commits. `me` may write to those in `me/`, and read all.
        revoke_after: The token is not valid any more once there were so many commits.
    """

    def __init__(self):
        super().__init__(("127.0.0.1", 0), _Handler)
        self.asked: list[str] = []
        self.repositories: dict[str, list[Commit]] = {}
        self.revoke_after: int | None = None
        self.url = f"http://127.0.0.1:{self.server_port}"

    def __enter__(self):
        Thread(target=self.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.shutdown()
        self.server_close()

    def environment(self, home, token=TOKEN) -> dict[str, str]:
        """Variables under which a process talks to this Hub; its files go to `home`."""
        quiet = {"HF_HUB_DISABLE_TELEMETRY": "1", "HF_HUB_OFFLINE": "0"}
        return quiet | {"HF_ENDPOINT": self.url, "HF_TOKEN": token, "HF_HOME": str(home)}

    def files(self, name: str) -> dict[str, bytes]:
        return self.repositories[name][-1].files

    def titles(self, name: str) -> list[str]:
        return [commit.title for commit in self.repositories[name]]

    def knows(self, token: str | None) -> bool:
        count = sum(map(len, self.repositories.values()))
        is_revoked = self.revoke_after is not None and count >= self.revoke_after
        return token == f"Bearer {TOKEN}" and not is_revoked


class _Handler(BaseHTTPRequestHandler):
    server: Hub

    def do_HEAD(self):
        self.do_GET()

    def do_GET(self):
        self.server.asked.append(self.path)
        repository = re.match(r"(?:/api/models)?/([^/]+/[^/]+)/?(.*)", self.path)
        name, what = repository.groups() if repository else ("", "")
        if name not in self.server.repositories:
            self.refuse(404, "Repository not found", "RepoNotFound")
        elif what == "auth-check/write":
            if self.may_write(name):
                self.answer({})
        elif what.startswith("resolve/"):
            path = what.split("/", 2)[2].partition("?")[0]
            content = self.server.files(name).get(path)
            if content is None:
                self.refuse(404, "Entry not found", "EntryNotFound")
            else:
                self.send(200, content, ETag=f'"{hash(content)}"')
        elif not what or what.startswith("revision/"):
            self.answer({"id": name, "sha": self.sha(name), "siblings": [], "tags": []})
        elif what.startswith("tree/"):
            sizes = {path: len(content) for path, content in self.server.files(name).items()}
            entry = {"type": "file", "oid": "0" * 40}
            self.answer([{"path": path, "size": size} | entry for path, size in sizes.items()])
        else:
            self.refuse(404, "Sorry, we can't find the page you are looking for.")

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.path == "/api/validate-yaml":
            self.validate(json.loads(body)["content"])
        elif self.path == "/api/repos/create":
            wanted = json.loads(body)
            name = f"{wanted['organization'] or 'me'}/{wanted['name']}"
            if self.may_write(name):
                is_new = name not in self.server.repositories
                self.server.repositories.setdefault(name, [])
                self.answer({"url": f"{self.server.url}/{name}"}, 200 if is_new else 409)
        elif match := re.match(r"/api/models/(.+/.+)/(preupload|commit)/main", self.path):
            name, what = match.groups()
            if self.may_write(name):
                self.preupload(body) if what == "preupload" else self.commit(name, body)

    def validate(self, card):
        """As the Hub does: whatever stands for a data set or a model must look like its name."""
        metadata = yaml.safe_load(card.split("---")[1])
        named = [("base_model", metadata.get("base_model"))]
        named += [("datasets", name) for name in metadata.get("datasets") or []]
        wrong = [(key, name) for key, name in named if name and not ID.fullmatch(name)]
        errors = [{"message": f'"{key}" with value "{name}" is not valid.'} for key, name in wrong]
        self.answer({"errors": errors, "warnings": []}, 400 if errors else 200)

    def preupload(self, body):
        paths = [file["path"] for file in json.loads(body)["files"]]
        regular = {"uploadMode": "regular", "shouldIgnore": False}
        self.answer({"files": [{"path": path, **regular} for path in paths]})

    def commit(self, name, body):
        commits = self.server.repositories[name]
        files, title = dict(commits[-1].files) if commits else {}, ""
        for entry in map(json.loads, body.splitlines()):
            if entry["key"] == "header":
                title = entry["value"]["summary"]
            else:
                assert entry["key"] == "file", entry["key"]
                content = base64.b64decode(entry["value"]["content"])
                files[entry["value"]["path"]] = content
        commits.append(Commit(title, files))
        sha = self.sha(name)
        url = f"{self.server.url}/{name}/commit/{sha}"
        self.answer({"commitUrl": url, "commitOid": sha, "success": True})

    def may_write(self, name) -> bool:
        if not self.server.knows(self.headers.get("Authorization")):
            self.refuse(401, "Invalid username or password.")
        elif not name.startswith("me/"):
            self.refuse(403, f"You don't have the rights to write to {name}")
        else:
            return True
        return False

    def sha(self, name):
        return f"{len(self.server.repositories[name]):040x}"

    def refuse(self, status, message, code=""):
        headers = {"X-Error-Code": code, "X-Error-Message": message}
        self.send(status, json.dumps({"error": message}).encode(), **headers)

    def answer(self, value, status=200):
        self.send(status, json.dumps(value).encode())

    def send(self, status, content: bytes, **headers):
        self.send_response(status)
        name = re.match(r"/([^/]+/[^/]+)/resolve/", self.path)
        if name and name[1] in self.server.repositories:
            headers["X-Repo-Commit"] = self.sha(name[1])
        headers |= {"Content-Type": "application/json", "Content-Length": str(len(content))}
        for header, value in headers.items():
            self.send_header(header, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def log_message(self, format, *args):
        pass
