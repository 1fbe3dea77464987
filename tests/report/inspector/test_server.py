"""The server of a live run."""

import http.client
import os
import socket
import threading
from contextlib import contextmanager

from barl_trl.report.inspector.server import make_server


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
        assert get(address, "/", Host="localhost")[0] == 200  # as browsers say of port 80


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


def test_an_index_out_of_the_folder_is_not_served(tmp_path):
    data = tmp_path / "page" / "data"
    data.mkdir(parents=True)
    (tmp_path / "secret").write_text("secret")
    (data / "index.html").symlink_to(tmp_path / "secret")
    with served(tmp_path / "page") as address:
        assert get(address, "/data/")[0] == get(address, "/data")[0] == 404


def test_names_that_no_file_can_have_are_not_found_and_not_spoken_of(tmp_path, capfd):
    with served(tmp_path) as address:
        for name in ("x" * 300, "x" * 5000, "%00", "%ff%fe", "%1b[2J", "..%2f..%2fetc%2fpasswd"):
            assert get(address, f"/{name}")[0] == 404
    assert capfd.readouterr() == ("", "")


def test_a_browser_that_leaves_in_the_middle_of_a_file_is_not_spoken_of(tmp_path, capfd):
    (tmp_path / "data.js").write_bytes(bytes(50_000_000))
    with served(tmp_path) as address:
        for _ in range(3):
            with socket.create_connection(address) as connection:
                connection.sendall(b"GET /data.js HTTP/1.1\r\nHost: localhost:1\r\n\r\n")
                assert connection.recv(1000)
        assert get(address, "/data.js")[0] == 200
    assert capfd.readouterr() == ("", "")
