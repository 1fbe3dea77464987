"""A page of a live run, served to this machine alone."""

import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from .site import Site

_SECONDS = 5.0
"""Between looks for new files; the page looks as often."""


class _Handler(SimpleHTTPRequestHandler):
    """Serves files; says nothing of each, and lets none be kept, for they change."""

    def end_headers(self):
        """Add headers to those of the file."""
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Cross-Origin-Resource-Policy", "same-origin")
        super().end_headers()

    def send_head(self):
        """Refuse other host names and sites, by which a page elsewhere would read this one.

        A link out of the folder is not followed.
        """
        if self.headers.get("Host", "").rpartition(":")[0] not in ("127.0.0.1", "localhost"):
            self.send_error(421)
            return None
        if self.headers.get("Sec-Fetch-Site") not in (None, "none", "same-origin"):
            self.send_error(403)
            return None
        path = Path(self.translate_path(self.path)).resolve()
        if not path.is_relative_to(Path(self.directory).resolve()) or not (
            path.is_file() or path.is_dir()
        ):
            self.send_error(404)
            return None
        return super().send_head()

    def list_directory(self, path):
        """List none."""
        self.send_error(404)

    def log_message(self, format, *args):
        """Print nothing."""


def make_server(folder: Path, *, port: int) -> ThreadingHTTPServer:
    """Return a server of a folder on 127.0.0.1; port 0: a free one."""
    return ThreadingHTTPServer(("127.0.0.1", port), partial(_Handler, directory=str(folder)))


def serve(site: Site, server: ThreadingHTTPServer, *, seconds: float = _SECONDS) -> None:
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
