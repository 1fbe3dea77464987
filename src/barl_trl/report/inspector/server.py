"""A server of the page of a live run, which only this machine can reach."""

import sys
import threading
import time
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from .site import Site

_SECONDS = 5.0
"""Seconds between two looks for new files of records. The page looks for news as often."""


class _Handler(SimpleHTTPRequestHandler):
    """Serve files of a folder, without logs. Browsers must not cache the files, for they change."""

    def end_headers(self):
        """Add headers that forbid caching, guessing of types, and use by other sites."""
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Cross-Origin-Resource-Policy", "same-origin")
        super().end_headers()

    def send_head(self):
        """Refuse requests by other host names or from other sites, which could read the page.

        Links out of the folder are not followed.
        """
        if self.headers.get("Host", "").partition(":")[0] not in ("127.0.0.1", "localhost"):
            self.send_error(421)
            return None
        if self.headers.get("Sec-Fetch-Site") not in (None, "none", "same-origin"):
            self.send_error(403)
            return None
        if not self._may_be_sent(Path(self.translate_path(self.path))):
            self.send_error(404)
            return None
        return super().send_head()

    def _may_be_sent(self, path: Path) -> bool:
        try:
            if path.is_dir():  # never a list of its files
                path /= "index.html"
            path = path.resolve()
            return path.is_relative_to(Path(self.directory).resolve()) and path.is_file()
        except (OSError, ValueError):  # no file can have such a name
            return False

    def log_message(self, format, *args):
        """Log nothing."""


class _Server(ThreadingHTTPServer):
    """A server that does not speak of browsers which leave in the middle of a file."""

    def handle_error(self, request, client_address):
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


def make_server(folder: Path, *, port: int) -> ThreadingHTTPServer:
    """Return a server of a folder on 127.0.0.1. With port 0 it takes a free port."""
    return _Server(("127.0.0.1", port), partial(_Handler, directory=str(folder)))


def serve(site: Site, server: ThreadingHTTPServer) -> None:
    """Serve a page, and take in new files of records, until the process is interrupted.

    Args:
        site: The page, after its first update.
        server: The server that [`make_server`] returned. It is closed at the end.
    """
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        while True:
            time.sleep(_SECONDS)
            site.update()
    finally:
        server.shutdown()
        server.server_close()
