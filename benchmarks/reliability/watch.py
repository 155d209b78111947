"""Attack the server of the live page, and load it: `python -m benchmarks.reliability.watch OUT.json`.

The server runs in a process of its own, whose time and memory are measured. On a busy machine, look at the seconds of
the CPU.
"""

import http.client
import json
import os
import random
import re
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

SECRET = "a secret that is outside of every run"
SIZE = 10**9
RUNS, VIEWERS, SECONDS = 50, 20, 60.0
REQUESTS = 20_000
CHOSEN = 8
"""The runs that every viewer looks at, the most that a page can."""


def main(out: Path) -> None:
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        found: dict[str, Any] = {"attack": attack(root / "attack", REQUESTS)}
        print(found, flush=True)
        found["large"] = {title: follow_large_file(root / title, title, SIZE) for title in LARGE}
        print(found["large"], flush=True)
        found["load"] = load(root / "load", RUNS, VIEWERS, SECONDS)
        print(found["load"], flush=True)
    out.write_text(json.dumps(found, indent=2) + "\n")


class Served:
    """A server of the live page in a process of its own."""

    def __init__(self, process: subprocess.Popen[str], address: str):
        self.process = process
        self.host, self.port = urlsplit(address).hostname or "", urlsplit(address).port or 0
        self.path = urlsplit(address).path

    def news(self, *asked: str) -> tuple[dict[str, Any], int, float]:
        """Return the answer to a viewer's question, its size in bytes, and the seconds that it took."""
        start = time.perf_counter()
        connection = http.client.HTTPConnection(self.host, self.port, timeout=60)
        connection.request("GET", f"{self.path}news?{'&'.join(f'of={one}' for one in asked)}")
        content = connection.getresponse().read()
        connection.close()
        return json.loads(content), len(content), time.perf_counter() - start

    def cpu_seconds(self) -> float:
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def megabytes(self, field: str) -> float:
        """Return the memory now (VmRSS), or at its peak (VmHWM)."""
        lines = Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith(field)) / 1000


@contextmanager
def serving(folder: Path) -> Iterator[Served]:
    """Serve a page about a folder while the context lasts."""
    command = [sys.executable, "-m", "alphamepol", "watch", str(folder)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ | {"COLUMNS": "300"})
    assert process.stdout is not None
    try:
        (address,) = re.findall("http://[^ ]*", process.stdout.readline())
        served = Served(process, address)
        served.news()
        yield served
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(30)
        process.stdout.close()


def make_run(folder: Path, epochs: int) -> None:
    folder.mkdir(parents=True)
    settings = {"epochs": epochs, "alpha": 0.2, "seeds": 2}
    described = {"command": "pretrain", "class": "gridworld-slope", "config": settings}
    (folder / "config.json").write_text(json.dumps(described))


def metrics_lines(epochs: range) -> str:
    """Return the lines of epochs with two seeds, as runs write them."""
    rest = (
        '"objective": 0.123456789, "mean_entropy": 0.23456789, "entropy": {"GWS": 0.5123456789, "GWN": 0.1123456789}, '
        '"tail_share": {"GWS": 0.25, "GWN": 0.75}, "objective_after": 0.13456789, "kl": 0.0456789, '
        '"effective_share": 0.7456789, "iterations": 12, "backtracks": 1, "sigma": [0.2123456789, 0.2123456789], '
        '"seconds": {"sampling": 0.1234567, "neighbours": 0.2345678, "learning": 0.3456789}}\n'
    )
    return "".join(f'{{"epoch": {epoch}, "seed": {seed}, {rest}' for epoch in epochs for seed in (0, 1))


def attack(root: Path, requests: int) -> dict[str, Any]:
    """Send random requests that must be refused, and questions about runs whose files are links to a secret.

    Return the answers by their status, and those that break a rule: an answer with content without the token, the
    content of the secret, a permission for other origins, or a server that no longer answers.
    """
    root.mkdir()
    (root / "secret").write_text(json.dumps({"command": SECRET, "class": SECRET, "config": {}}))
    for name in ("config.json", "metrics.jsonl", "class.json", "summary.json", "evaluation.safetensors", "checkpoints"):
        make_run(root / f"runs/{name}", 3)
        (root / f"runs/{name}/{name}").unlink(missing_ok=True)
        (root / f"runs/{name}/{name}").symlink_to(root if name == "checkpoints" else root / "secret")
    (root / "runs/link").symlink_to(root)
    drawn, statuses, broken = random.Random(0), Counter[str](), Counter[str]()
    before = sorted((str(path), path.lstat().st_mtime_ns) for path in root.rglob("*"))
    with serving(root / "runs") as served:
        keys = [run["key"] for run in served.news()[0]["runs"]]
        for _ in range(requests):
            request, allowed = _random_request(served, keys, drawn)
            answer = _raw_answer(served, request)
            head, _, content = answer.partition(b"\r\n\r\n")
            status = head[9:12].decode() if head.startswith(b"HTTP/1.1 ") else "none"
            statuses[status] += 1
            broken["content without the token"] += not allowed and bool(content) and status not in ("400", "none")
            broken["the secret"] += SECRET.encode() in answer
            broken["permission for other origins"] += b"access-control" in head.lower()
            broken["an answer to a method that writes"] += status == "200" and not request.startswith((b"GET", b"HEAD"))
        broken["no answer afterwards"] += len(served.news()[0]["runs"]) != len(keys)
    after = sorted((str(path), path.lstat().st_mtime_ns) for path in root.rglob("*"))
    broken["a file that was made or changed"] += before != after
    return {"requests": requests, "answers": dict(sorted(statuses.items())), "broken": dict(broken)}


def _random_request(served: Served, keys: list[str], drawn: random.Random) -> tuple[bytes, bool]:
    """Return a request, and whether the server may answer with content: it has the token and names this machine."""
    token = served.path.strip("/")
    odd = ["..", "%2e%2e", "..%2f", "//", "etc/passwd", "%00", "\\..\\", "news", "watch.js", "config.json", "?of=", "é"]
    first = drawn.choice([token, token, token[:-1], token.upper(), "", "x" * 10_000, "%" + token])
    rest = "/".join(drawn.choices(odd, k=drawn.randrange(4)))
    if drawn.random() < 0.4:
        known = f"{drawn.choice(keys)}.{drawn.choice([0, 1, -1, 10**30])}.{drawn.randrange(9)}."
        rest = f"news?of={drawn.choice([known, known + 'x' * 50, '%ff', 'a.b.c.d'])}"
    method = drawn.choice(
        ["GET", "GET", "GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "TRACE", "CONNECT", "X" * 99]
    )
    host = drawn.choice(["localhost", "localhost", "127.0.0.1:1", "evil.example", "127.0.0.1.evil.example", "", "[::1"])
    headers = [f"Host: {host}"] if drawn.random() < 0.95 else []
    more = ["Origin: https://evil.example", "Host: evil.example", "Content-Length: 5", "X-Forwarded-Host: localhost"]
    more += ["Transfer-Encoding: chunked", "Cookie: " + "x" * 5000, "Range: bytes=0-", "Upgrade: websocket", "Access"]
    headers += drawn.choices(more, k=drawn.randrange(3))
    text = "\r\n".join([f"{method} /{first}/{rest} HTTP/1.1", *headers, "Connection: close", "", ""])
    hosts = [line[6:] for line in headers if line.startswith("Host: ")]
    allowed = first == token and hosts in (["localhost"], ["127.0.0.1:1"])
    return text.encode(), allowed


def _raw_answer(served: Served, request: bytes) -> bytes:
    """Send bytes, and return all bytes of the answer."""
    parts = []
    with socket.create_connection((served.host, served.port), timeout=60) as connection:
        try:
            connection.sendall(request)
            connection.shutdown(socket.SHUT_WR)
            while part := connection.recv(2**16):
                parts.append(part)
        except ConnectionError:
            pass  # the server has closed the connection
    return b"".join(parts)


LARGE = "epochs of a run", "one epoch", "one line", "zeros"


def follow_large_file(root: Path, content: str, size: int) -> dict[str, Any]:
    """Follow a run with a large metrics.jsonl until it is read to its end.

    Return how long this takes, with the slowest answer meanwhile, and the time of an answer afterwards.
    """
    make_run(root / "run", 10**7)
    path = root / "run/metrics.jsonl"
    lines = len(metrics_lines(range(10**6, 10**6 + 1)))
    with path.open("w") as file:
        if content == "zeros":
            file.truncate(size)
        else:
            file.write('{"epoch": 0, "x": "' if content == "one line" else metrics_lines(range(1000)))
            last = 1000
            while file.tell() < size:
                if content == "one line":
                    file.write("x" * 10**6)
                elif content == "one epoch":
                    file.write(metrics_lines(range(1000, 1001)) * max(1, 10**6 // lines))
                else:
                    file.write(metrics_lines(range(last, last + max(1, 10**6 // lines))))
                    last += max(1, 10**6 // lines)
    with serving(root) as served:
        before, memory = served.cpu_seconds(), served.megabytes("VmRSS")
        start, slowest, looks = time.perf_counter(), 0.0, 0
        key = served.news()[0]["runs"][0]["key"]
        while True:
            news, _, seconds = served.news(f"{key}.0.0.")
            slowest, looks = max(slowest, seconds), looks + 1
            if news["runs"][0]["read"] == 1:
                break
        whole = time.perf_counter() - start
        after = [served.news(f"{key}.0.0.")[2] for _ in range(20)]
        curves = news["of"][key]["curves"]
        return {
            "megabytes": round(path.stat().st_size / 1e6),
            "seconds": round(whole, 2),
            "cpu_seconds": round(served.cpu_seconds() - before, 2),
            "looks": looks,
            "slowest_answer": round(slowest, 3),
            "answer_afterwards": round(statistics.median(after), 4),
            "peak_megabytes": round(served.megabytes("VmHWM") - memory),
            "points": len(curves["steps"]),
            "newest_epoch": curves["steps"][-1] if curves["steps"] else None,
            "said": news["runs"][0]["problem"],
        }


def load(root: Path, runs: int, viewers: int, seconds: float) -> dict[str, Any]:
    """Let runs train and viewers look at them, as pages do, and return the times of the answers."""
    folders = [root / f"run-{number:02}" for number in range(runs)]
    for folder in folders:
        make_run(folder, 10_000)
        (folder / "metrics.jsonl").write_text(metrics_lines(range(500)))
    end = float("inf")
    took: list[float] = []
    sizes: list[int] = []
    wrong: list[str] = []

    def train() -> None:
        epoch = 500
        while time.monotonic() < end:
            for folder in folders:
                with (folder / "metrics.jsonl").open("a") as file:
                    file.write(metrics_lines(range(epoch, epoch + 1)))
            epoch += 1
            time.sleep(1.0)

    def look(number: int) -> None:
        keys = [run["key"] for run in served.news()[0]["runs"]]
        known = dict.fromkeys(random.Random(number).sample(keys, min(CHOSEN, len(keys))), (0, 0))
        while time.monotonic() < end:
            asked = [f"{key}.{generation}.{fixed}." for key, (generation, fixed) in known.items()]
            try:
                news, size, answer = served.news(*asked)
            except (OSError, ValueError, http.client.HTTPException) as error:
                wrong.append(str(error))
                continue
            took.append(answer)
            sizes.append(size)
            known = {key: (of["curves"]["generation"], of["curves"]["fixed"]) for key, of in news["of"].items()}
            time.sleep(2.0)

    with serving(root) as served:
        before, start = served.cpu_seconds(), time.monotonic()
        end = start + seconds
        threads = [threading.Thread(target=train)]
        threads += [threading.Thread(target=look, args=(number,)) for number in range(viewers)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        newest = [run["done"] for run in served.news()[0]["runs"]]
        ordered = sorted(took)
        return {
            "runs": runs,
            "viewers": viewers,
            "seconds": round(time.monotonic() - start),
            "answers": len(took),
            "answers_that_failed": len(wrong),
            "median_answer": round(statistics.median(took), 4),
            "answer_of_95_percent": round(ordered[int(0.95 * (len(ordered) - 1))], 4),
            "slowest_answer": round(ordered[-1], 4),
            "median_kilobytes": round(statistics.median(sizes) / 1000, 1),
            "cpu_share": round((served.cpu_seconds() - before) / (time.monotonic() - start), 3),
            "peak_megabytes": round(served.megabytes("VmHWM")),
            "fewest_epochs_seen": min(newest),
        }


if __name__ == "__main__":
    main(Path(sys.argv[1]))
