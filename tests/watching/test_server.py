"""Test that the server answers nobody without the token, nothing from elsewhere, and never writes."""

import http.client
import json
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

import alphamepol as am
from alphamepol.cli.main import main
from alphamepol.watching.server import host_is_here

SECRET = "a secret that is outside of every run"


@pytest.fixture(scope="module")
def root(tmp_path_factory) -> Path:
    """Return a folder with a run whose files are links to a secret."""
    root = tmp_path_factory.mktemp("server")
    (root / "secret").write_text(json.dumps({"command": SECRET, "class": SECRET, "config": {}}))
    for name in ("config.json", "metrics.jsonl", "class.json", "summary.json", "evaluation.safetensors"):
        run = root / "runs" / f"linked-{name}"
        run.mkdir(parents=True)
        (run / "config.json").write_text('{"command": "pretrain", "class": "multigrid", "config": {"epochs": 3}}')
        (run / name).unlink(missing_ok=True)
        (run / name).symlink_to(root / "secret")
    (root / "runs/link").symlink_to(root)
    return root


@pytest.fixture(scope="module")
def page(root) -> Iterator[am.WatchPage]:
    with am.watch(root / "runs") as page:
        yield page


def ask(page: am.WatchPage, path: str, method: str = "GET", **headers: str) -> tuple[int, dict[str, str], bytes]:
    """Send a request with exactly this path, and return the status, the headers and the content of the answer."""
    address = urlsplit(page.address)
    connection = http.client.HTTPConnection(address.hostname or "", address.port or 0, timeout=30)
    connection.request(method, path, headers=headers)
    answer = connection.getresponse()
    found = answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read()
    connection.close()
    return found


def token_of(page: am.WatchPage) -> str:
    return urlsplit(page.address).path.strip("/")


def test_the_page_and_its_files_are_served_with_strict_headers(page) -> None:
    for name in ("", "watch.js", "charts.js", "watch-places.js", "watch.css", "news"):
        status, headers, content = ask(page, f"/{token_of(page)}/{name}")
        assert (status, bool(content)) == (200, True), name
        assert headers["content-security-policy"].startswith("default-src 'none'; script-src 'self'; style-src 'self'")
        assert "frame-ancestors 'none'" in headers["content-security-policy"]
        assert (headers["cache-control"], headers["x-frame-options"]) == ("no-store", "DENY")
        assert (headers["x-content-type-options"], headers["referrer-policy"]) == ("nosniff", "no-referrer")
        assert not [name for name in headers if name.startswith("access-control")]


def test_without_the_token_every_path_is_refused_with_nothing(page) -> None:
    token = token_of(page)
    wrong = [token[:-1], token + "x", token[::-1], token.lower(), "x" * len(token), "", "%00", "%C3%A9"]
    for first in wrong:
        for name in ("", "/", "/news", "/watch.js", f"/{token}/news"):
            path = f"/{first}{name}".encode().decode("latin-1")
            assert ask(page, path)[::2] == (403, b""), path
            assert ask(page, path, "POST")[::2] == (403, b""), path


@pytest.mark.parametrize("path", ["..", "../..", "%2e%2e/%2e%2e/etc/passwd", "..%2f..%2fsecret", "//etc/passwd"])
@pytest.mark.parametrize("name", ["", "watch.js/", "news/"])
def test_no_path_leads_to_a_file(path: str, name: str, page) -> None:
    status, _, content = ask(page, f"/{token_of(page)}/{name}{path}")
    assert status in (403, 404)
    assert content in (b"", b"Not Found")


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"])
def test_nothing_can_be_written(method: str, page) -> None:
    for name in ("", "news", "watch.js"):
        assert ask(page, f"/{token_of(page)}/{name}", method)[::2] == (405, b"")


def test_other_hosts_are_refused(page) -> None:
    path = f"/{token_of(page)}/news"
    for host in ("evil.example", "127.0.0.1.evil.example", "localhost.evil.example:80", "", "127.0.0.2", "[::2]"):
        assert ask(page, path, Host=host)[::2] == (403, b""), host
    for host in ("localhost", "localhost:9999", "127.0.0.1:1", "[::1]:7", "LOCALHOST"):
        assert ask(page, path, Host=host)[0] == 200, host


def test_two_host_headers_are_refused(page) -> None:
    address = urlsplit(page.address)
    with socket.create_connection((address.hostname, address.port)) as connection:
        connection.sendall(f"GET {address.path} HTTP/1.1\r\nHost: localhost\r\nHost: evil\r\n\r\n".encode())
        assert connection.recv(12) in (b"HTTP/1.1 403", b"HTTP/1.1 400")


def test_hosts_of_a_server_that_listens_everywhere() -> None:
    assert host_is_here("192.168.0.7:80", "0.0.0.0")
    assert host_is_here(f"{socket.gethostname()}:80", "0.0.0.0")
    assert not host_is_here("evil.example", "0.0.0.0")
    assert host_is_here("10.0.0.1", "10.0.0.1")
    assert not host_is_here("10.0.0.2", "10.0.0.1")
    assert not host_is_here("localhost\n", "127.0.0.1")


def test_another_origin_gets_no_permission(page) -> None:
    _, headers, _ = ask(page, f"/{token_of(page)}/news", Origin="https://evil.example")
    assert not [name for name in headers if name.startswith("access-control")]
    assert headers["cross-origin-resource-policy"] == "same-origin"


def test_links_in_run_folders_show_nothing_of_their_targets(root, page) -> None:
    before = sorted((path, path.lstat().st_mtime_ns) for path in root.rglob("*"))
    news = json.loads(ask(page, f"/{token_of(page)}/news")[2])
    asked = "&".join(f"of={run['key']}.0.0." for run in news["runs"])
    for _ in range(3):
        content = ask(page, f"/{token_of(page)}/news?{asked}")[2].decode()
        assert SECRET not in content
        assert len(json.loads(content)["runs"]) == 5
    assert content.count("is a link") >= 5
    assert sorted((path, path.lstat().st_mtime_ns) for path in root.rglob("*")) == before


@pytest.mark.parametrize("of", ["x", "000000000000.0.0.", "a.b.c.d", "0" * 5000, "%00", "000000000000.-1.1."])
def test_odd_questions_are_answered_like_none(of: str, page) -> None:
    status, _, content = ask(page, f"/{token_of(page)}/news?of={of}")
    assert status == 200
    assert json.loads(content)["of"] == {}


def test_mistakes_end_in_a_sentence(tmp_path, page, capsys, monkeypatch) -> None:
    assert main(["watch", str(tmp_path / "missing")]) == 2
    assert "there is no folder" in capsys.readouterr().err
    port = str(urlsplit(page.address).port)
    assert main(["watch", str(tmp_path), "--port", port]) == 2
    assert "choose another --host or --port" in " ".join(capsys.readouterr().err.split())
    assert main(["watch", str(tmp_path), "--port", "70000"]) == 2
    assert "port: 70000 was given" in capsys.readouterr().err
    assert main(["watch", str(tmp_path), "--host", "198.51.100.1"]) == 2  # an address for documents
    assert "cannot listen on 198.51.100.1" in " ".join(capsys.readouterr().err.split())
    assert main(["watch", str(tmp_path), "--host", "x" * 70]) == 2
    assert "is not an address of this machine" in " ".join(capsys.readouterr().err.split())
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    assert main(["watch", str(tmp_path)]) == 2
    assert "alphamepol[watch]" in " ".join(capsys.readouterr().err.split())


def test_ctrl_c_closes_the_page_with_a_sentence(tmp_path, capsys, monkeypatch) -> None:
    def interrupted(_: am.WatchPage) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(am.WatchPage, "wait", interrupted)
    assert main(["watch", str(tmp_path)]) == 130
    shown = capsys.readouterr()
    assert "http://127.0.0.1:" in shown.out
    assert "the page is closed; runs that it showed go on" in shown.err
