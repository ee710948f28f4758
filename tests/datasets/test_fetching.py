"""Downloads of published files, from a server on this machine that redirects, breaks off and sends other files."""

import hashlib
import re
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import h5py
import numpy as np
import pytest

from skop.datasets import _fetching, fetch_published, load_pdebench_darcy
from skop.exceptions import FieldDataError, OptionalDependencyError

NAME, FILE = "pdebench_darcy", "2D_DarcyFlow_beta1.0_Train.hdf5"
COUNTS = {"n_train": 2, "n_test": 1}


class Handler(BaseHTTPRequestHandler):
    """Sends the content of the server: whole, from a byte on, or up to a byte."""

    def do_GET(self):
        server, start = self.server, 0
        server.asked.append((self.path, self.headers.get("Range")))
        if self.path == "/moved":
            return self.answer(302, {"Location": "/file"})
        if self.path != "/file":
            return self.answer(404)
        content = server.content
        if server.knows_ranges and (asked := self.headers.get("Range")):
            start = int(re.fullmatch(r"bytes=(\d+)-", asked)[1])
            if start >= len(content):
                return self.answer(416, {"Content-Range": f"bytes */{len(content)}"})
        headers = {"Content-Range": f"bytes {start}-{len(content) - 1}/{len(content)}"} if start else {}
        sent = content[start : server.breaks_off_at]
        return self.answer(206 if start else 200, headers, sent, len(content) - start)

    def answer(self, status, headers=(), content=b"", length=0):
        self.send_response(status)
        for key, value in {**dict(headers), "Content-Length": str(length)}.items():
            self.send_header(key, value)
        self.end_headers()
        self.wfile.write(content)
        self.close_connection = True

    def log_message(self, *arguments):
        """Say nothing."""


@pytest.fixture
def server(tmp_path, monkeypatch):
    with h5py.File(tmp_path / "published", "w") as file:
        file["nu"], file["tensor"] = np.ones((3, 64, 64)), np.random.default_rng(0).random((3, 1, 64, 64))
        file["x-coordinate"] = file["y-coordinate"] = np.linspace(0, 1, 64)
    httpd = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    httpd.content, httpd.asked = (tmp_path / "published").read_bytes(), []
    httpd.knows_ranges, httpd.breaks_off_at = True, None
    httpd.address = f"http://127.0.0.1:{httpd.server_address[1]}"
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    Thread(target=httpd.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    yield httpd
    httpd.shutdown()
    httpd.server_close()


@pytest.fixture
def fetch(server, tmp_path, monkeypatch):
    def fetch(path="/file", sha256=None, **options):
        monkeypatch.setitem(_fetching._FILES, NAME, (FILE, server.address + path, sha256))
        return fetch_published(NAME, data_home=tmp_path / "home", **COUNTS, **options)

    return fetch


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "home" / "skop" / NAME


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def sha256_of(content):
    return hashlib.sha256(content).hexdigest()


def test_a_file_is_downloaded_once_through_redirects_and_loaded(fetch, server, folder, tmp_path):
    data = fetch("/moved")
    expected = load_pdebench_darcy(tmp_path / "published", **COUNTS)
    np.testing.assert_array_equal(data.y_test.values[:], expected.y_test.values[:])
    assert server.asked == [("/moved", None), ("/file", None)]
    assert names(folder) == [FILE, f"{FILE}.sha256"]
    X, _ = fetch("/moved", subset="test", return_X_y=True)
    assert len(X) == 1
    assert len(server.asked) == 2


def test_a_download_that_breaks_off_goes_on(fetch, server, folder):
    server.breaks_off_at = len(server.content) // 2
    with pytest.raises(FileNotFoundError, match=r"bytes are kept, the same call goes on there"):
        fetch("/moved")
    assert names(folder) == [f"{FILE}.part"]
    kept = (folder / f"{FILE}.part").stat().st_size
    assert 0 < kept <= server.breaks_off_at
    server.breaks_off_at = None
    fetch("/moved")
    assert server.asked[-1] == ("/file", f"bytes={kept}-")
    assert (folder / FILE).read_bytes() == server.content


@pytest.mark.parametrize("case", ["no ranges", "all there", "too long"])
def test_what_is_there_does_not_spoil_the_file(case, fetch, server, folder):
    folder.mkdir(parents=True)
    server.knows_ranges = case != "no ranges"
    left = {"no ranges": server.content[:1000], "all there": server.content, "too long": server.content + b"0"}[case]
    (folder / f"{FILE}.part").write_bytes(left)
    fetch()
    assert (folder / FILE).read_bytes() == server.content
    assert names(folder) == [FILE, f"{FILE}.sha256"]


def test_a_file_with_another_hash_is_refused(fetch, server, folder):
    fetch(sha256=sha256_of(server.content))
    assert names(folder) == [FILE]
    (folder / FILE).unlink()
    with pytest.raises(FieldDataError, match=rf"{server.address}/file gave another file than expected.*{'0' * 64}"):
        fetch(sha256="0" * 64)
    assert names(folder) == []


def test_an_unknown_hash_is_that_of_the_first_download(fetch, server, folder):
    fetch()
    assert (folder / f"{FILE}.sha256").read_text() == sha256_of(server.content)
    (folder / FILE).write_bytes(server.content + b"0")
    with pytest.raises(FieldDataError, match=rf"has the SHA-256 \w+, expected {sha256_of(server.content)}.*Remove it"):
        fetch()
    (folder / FILE).unlink()
    first, server.content = server.content, server.content + b"0"
    with pytest.raises(FieldDataError, match="gave another file than expected"):
        fetch()
    server.content = first
    fetch()


def test_the_error_without_a_file_says_what_was_tried_and_what_to_do(fetch, server, folder):
    do = rf"by hand.*{re.escape(str(folder))}.*{FILE}.*darus.*skop\.datasets\.make_darcy\(variant='pdebench'\)"
    with pytest.raises(FileNotFoundError, match=f"{server.address}/gone cannot be read .*404.*{do}"):
        fetch("/gone")
    with pytest.raises(FileNotFoundError, match=f"download_if_missing is False.*{do}"):
        fetch(download_if_missing=False)
    server.shutdown()
    server.server_close()
    with pytest.raises(FileNotFoundError, match=f"{server.address}/file cannot be read .*refused.*{do}"):
        fetch()


@pytest.mark.parametrize("name", sorted(set(_fetching._LOADERS) - set(_fetching._FILES)))
def test_sets_without_addresses_say_where_they_are(name, tmp_path):
    folder = tmp_path / "skop" / name
    generator = "" if name == "tissue" else rf"skop\.datasets\.make_{name}"
    with pytest.raises(
        FileNotFoundError, match=rf"{name} was not .*no addresses.*{re.escape(str(folder))}.*drive\.google.*{generator}"
    ):
        fetch_published(name, data_home=tmp_path)


def test_names_and_packages(fetch, folder, monkeypatch, tmp_path):
    with pytest.raises(ValueError, match=r"name must be one of airfoil, .*, tissue, got 'load_pipe'"):
        fetch_published("load_pipe")
    monkeypatch.setitem(sys.modules, "pooch", None)
    with pytest.raises(OptionalDependencyError, match=r"pooch is needed .* extra 'data'.*pip install pooch"):
        fetch()
    folder.mkdir(parents=True)
    (folder / FILE).write_bytes((tmp_path / "published").read_bytes())
    assert len(fetch().X_train) == 2
