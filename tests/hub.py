"""A server on this machine that speaks the Hub's upload protocol as far as `push_to_hub` does."""

import base64
import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread


class Hub(ThreadingHTTPServer):
    """Keeps what is pushed in `files`, path -> bytes. A context manager."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), _Handler)
        self.files: dict[str, bytes] = {}
        self.url = f"http://127.0.0.1:{self.server_port}"

    def __enter__(self):
        Thread(target=self.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.shutdown()
        self.server_close()


class _Handler(BaseHTTPRequestHandler):
    server: Hub

    def do_GET(self):
        self.answer(
            {"id": "me/tiny", "modelId": "me/tiny", "sha": "0" * 40, "siblings": [], "tags": []}
        )

    def do_HEAD(self):
        self.send_response(404)
        self.end_headers()

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.path.endswith("/create"):
            self.answer({"url": f"{self.server.url}/me/tiny"})
        elif "/preupload/" in self.path:
            paths = [file["path"] for file in json.loads(body)["files"]]
            regular = {"uploadMode": "regular", "shouldIgnore": False}
            self.answer({"files": [{"path": path, **regular} for path in paths]})
        elif "/commit/" in self.path:
            for line in body.splitlines():
                entry = json.loads(line)
                if entry["key"] == "file":
                    content = base64.b64decode(entry["value"]["content"])
                    self.server.files[entry["value"]["path"]] = content
            url = f"{self.server.url}/me/tiny/commit/{'0' * 40}"
            self.answer({"commitUrl": url, "commitOid": "0" * 40, "success": True})
        else:
            self.answer({"errors": [], "warnings": []})

    def answer(self, value):
        content = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format, *args):
        pass
