"""Ray clusters of several nodes on this machine, for tests. Nothing of them is left when they end."""

import os
import re
import secrets
import signal
import subprocess
import sys
import uuid
from contextlib import suppress
from pathlib import Path

from processes import processes_with_marker, wait_until_no_process_has

RAY = Path(sys.executable).parent / "ray"
SOURCES = Path(__file__).parents[2] / "src"


class TwoNodes:
    """A cluster whose nodes are started with `ray start`. They cannot import what the tests can import.

    `environment` has the environment variables of a program that uses the cluster.
    """

    def __init__(self, folder: Path):
        self._folder = folder
        self.environment = {
            "RAY_USAGE_STATS_ENABLED": "0",
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN": secrets.token_hex(32),
        }
        self.nodes: list[str] = []

    @property
    def address(self) -> str:
        return self.environment["RAY_ADDRESS"]

    def add(self, cores: int) -> str:
        """Start a node, and return a text that all its processes have in their environment variables."""
        mark = uuid.uuid4().hex
        self.nodes.append(mark)
        first = ["--head", "--port=0", "--include-dashboard=false", f"--temp-dir={self._folder}"]
        place = first if len(self.nodes) == 1 else [f"--address={self.address}"]
        options = ["--disable-usage-stats", f"--num-cpus={cores}", "--object-store-memory=80000000"]
        known = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
        # Some of Ray's processes write their title over the first variables. They keep this one.
        path = os.pathsep.join([str(SOURCES), f"/nowhere/{mark}"])
        done = subprocess.run(
            [RAY, "start", *place, *options],
            env=known | self.environment | {"PYTHONPATH": path, "ALPHAMEPOL_TEST_NODE": mark},
            cwd=self._folder,
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        if len(self.nodes) == 1:
            self.environment["RAY_ADDRESS"] = re.findall(r"--address='(.*?)'", done.stdout)[0]
        return mark

    def actors(self, node: str) -> list[int]:
        """Return the process numbers of the actors of a node."""
        return [number for number, command in processes_with_marker(node).items() if "RayActor" in command]

    def kill(self, node: str) -> None:
        """Kill all processes of a node at once."""
        while found := processes_with_marker(node):
            for number in found:
                with suppress(OSError):
                    os.kill(number, signal.SIGKILL)

    def end(self) -> None:
        for node in self.nodes:
            self.kill(node)
            wait_until_no_process_has(node)
