"""The server of a live run."""

import http.client
import os
import threading
from contextlib import contextmanager

import pytest

from barl_trl.report.inspector.server import make_server, serve
from barl_trl.report.inspector.site import Site

from .rollouts import write_run


@contextmanager
def served(folder):
    server = make_server(folder, port=0)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server.server_address
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def get(address, path, **headers):
    connection = http.client.HTTPConnection(*address)
    connection.request("GET", path, headers=headers)
    answer = connection.getresponse()
    return answer.status, answer.read(), answer.headers


def test_files_are_served_to_this_machine_and_never_kept(tmp_path):
    (tmp_path / "index.html").write_text("a page")
    with served(tmp_path) as address:
        assert address[0] == "127.0.0.1"
        status, body, headers = get(address, "/")
        assert (status, body, headers["Cache-Control"]) == (200, b"a page", "no-store")
        assert get(address, "/../secret")[0] == 404
        assert get(address, "/", Host="evil.example:80")[0] == 421


def test_new_files_are_taken_in_until_the_end(tmp_path):
    run = tmp_path / "run"
    write_run(run, steps=[0])
    made = Site([run / "beliefs"], ["run"], tmp_path / "page", is_live=True)
    made.update()
    server = make_server(tmp_path / "page", port=0)
    address = server.server_address
    seen = []

    class End(Exception):
        pass

    class Watched:
        def update(self):
            seen.append(get(address, "/data/index.js")[1])
            if len(seen) == 2:
                raise End
            write_run(run, steps=[10])
            assert made.update() == 1

    with pytest.raises(End):
        serve(Watched(), server, seconds=0.01)
    assert b'"rollouts":12' in seen[0] and b'"rollouts":24' in seen[1]
    with pytest.raises(ConnectionRefusedError):
        get(address, "/")


def test_no_other_site_no_listing_and_nothing_outside_is_served(tmp_path):
    page, data = tmp_path / "page", tmp_path / "page" / "data"
    data.mkdir(parents=True)
    (data / "index.js").write_text("data")
    (tmp_path / "secret.js").write_text("secret")
    (data / "out.js").symlink_to(tmp_path / "secret.js")
    os.mkfifo(data / "pipe.js")
    with served(page) as address:
        status, body, headers = get(address, "/data/index.js", **{"Sec-Fetch-Site": "same-origin"})
        assert (status, body) == (200, b"data")
        assert headers["Cross-Origin-Resource-Policy"] == "same-origin"
        for site in ("cross-site", "same-site"):
            assert get(address, "/data/index.js", **{"Sec-Fetch-Site": site})[0] == 403
        for path in ("/", "/data/", "/data/out.js", "/data/pipe.js"):
            assert get(address, path)[0] == 404
