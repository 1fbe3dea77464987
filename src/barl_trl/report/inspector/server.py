"""A page of a live run, served to this machine alone."""

import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from .site import Site

SECONDS = 5.0
"""Between looks for new files; the page looks as often."""


class _Handler(SimpleHTTPRequestHandler):
    """Serves files; says nothing of each, and lets none be kept, for they change."""

    def end_headers(self):
        """Add headers to those of the file."""
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        super().end_headers()

    def send_head(self):
        """Refuse other host names: they are how a page elsewhere would read this one."""
        if self.headers.get("Host", "").rpartition(":")[0] not in ("127.0.0.1", "localhost"):
            self.send_error(421)
            return None
        return super().send_head()

    def log_message(self, format, *args):
        """Print nothing."""


def make_server(folder: Path, *, port: int) -> ThreadingHTTPServer:
    """Return a server of a folder on 127.0.0.1; port 0: a free one."""
    return ThreadingHTTPServer(("127.0.0.1", port), partial(_Handler, directory=str(folder)))


def serve(site: Site, server: ThreadingHTTPServer, *, seconds: float = SECONDS) -> None:
    """Serve a page, and take in new files of records, until it is interrupted.

    Args:
        site: The page, made once.
        server: As [`make_server`] returns it; closed at the end.
        seconds: Between looks for new files.
    """
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    wake = threading.Event()
    try:
        while not wake.wait(seconds):
            site.update()
    finally:
        server.shutdown()
        server.server_close()
