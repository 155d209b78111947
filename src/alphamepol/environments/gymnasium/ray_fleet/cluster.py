"""The connection to a Ray cluster: actors are started where there is room, and elsewhere if they are lost."""

import re
import socket
import time
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from alphamepol import __version__
from alphamepol.compute.ray_options import ray_options
from alphamepol.environments.gymnasium.ray_fleet.actor import Introduction, RayActor
from alphamepol.environments.gymnasium.shared_board import BoardLayout

PATIENCE = 60.0
"""The seconds in which at least one more actor must start. A cluster may have to start a machine for it."""
REPLACED = 10.0
"""The seconds in which an actor must start that replaces a lost one."""
REACHED = 10.0
"""The seconds in which the head of a cluster must accept a connection."""
TRIES = 6
"""The times that we look for room for lost actors. Ray may need fifteen seconds to notice that a node is lost."""

Key = TypeVar("Key", bound=Hashable)


@dataclass
class Actor:
    """An actor, and the place where it runs."""

    handle: Any
    introduction: Introduction
    holds: set[int] = field(default_factory=set)
    """The rows of its board with a trajectory."""

    @property
    def where(self) -> str:
        node = self.introduction
        return f"process {node.process} on node {node.host}, {node.node[:8]}"


class NoActorError(Exception):
    """The error of a cluster that has no room for any actor."""


class RayCluster:
    """A Ray cluster that runs the actors of one fleet.

    Only this class, and no other code of the fleet, calls Ray.

    **Arguments**

    - `pickled_recipe`: the recipe of the environments, which is sent to each node once.
    """

    def __init__(self, pickled_recipe: bytes):
        self._pickled = pickled_recipe
        self._recipe: Any = None
        self._layout: BoardLayout | None = None
        self._why = ""
        self._ray: Any = None
        self.errors: tuple[type[Exception], ...] = ()
        """The errors that Ray raises."""

    def connect(self, address: str | None, number: int | None) -> str | None:
        """Connect to a cluster. Without an address, start one for `number` workers on this machine.

        Returns None, or a sentence that says why there is no connection.
        """
        options = ray_options(address, number)
        try:
            import ray
            from ray.exceptions import RayError

            _check_address_of_cluster(address)
            ray.init(**options)
            self._ray, self.errors = ray, (RayError,)
            self._recipe = ray.put(self._pickled)
        except Exception as error:
            where = "on this machine" if address is None else f"at {address}"
            cure = "look at `ray status` there, or at RAY_ADDRESS or --ray-address"
            return f"no Ray cluster can be used {where} ({why_ray_failed(error)}); {cure}"
        return None

    def leave(self) -> None:
        """End the connection. This ends all actors, and a cluster of our own."""
        if self._ray is not None:
            self._ray.shutdown()

    def cores(self) -> int:
        """Return the number of cores of the cluster, at least 1."""
        return max(1, int(self._ray.cluster_resources().get("CPU", 0)))

    def start(self, number: int, layout: BoardLayout) -> tuple[list[Actor], str]:
        """Start up to `number` actors, one on each free core. Return them, and why there are fewer.

        Raises a `NoActorError` if there is none.
        """
        self._layout = layout.resized(1)
        found = self._introduced([self._new_actor(num_cpus=1) for _ in range(number)], PATIENCE)
        free = self._ray.available_resources().get("CPU", 0)
        why = self._why or f"{free:g} of its {self.cores()} cores are free"
        if not found:
            raise NoActorError(f"no worker could be started ({why}); continue with --resume when there is room")
        return found, why

    def replace(self, lost: Sequence[Actor]) -> list[Actor]:
        """Start an actor for each one that was lost: on a free core, otherwise on a core that is in use.

        Raises a `NoActorError` if no node is left.
        """
        self.end(lost)  # those that only cannot be reached
        found: list[Actor] = []
        for attempt in range(TRIES):
            missing = len(lost) - len(found)
            free = min(missing, int(self._ray.available_resources().get("CPU", 0))) if attempt == 0 else 0
            handles = [self._new_actor(num_cpus=1) for _ in range(free)]
            found += self._introduced(handles, REPLACED)
            nodes = [node for node in self._ray.nodes() if node["Alive"] and node["Resources"].get("CPU", 0) > 0]
            handles = [
                self._new_actor(num_cpus=0, node=nodes[(number + attempt) % len(nodes)]["NodeID"])
                for number in range(len(lost) - len(found) if nodes else 0)
            ]
            found += self._introduced(handles, REPLACED)
            if len(found) == len(lost):
                return found
            time.sleep(1)
        self.end(found)
        raise NoActorError(
            f"workers were lost, and no node of the cluster could run others ({self._why or 'none has cores'}); "
            "continue with --resume when there is room"
        )

    def end(self, actors: Sequence[Actor]) -> None:
        """End actors at once."""
        for actor in actors:
            self._ray.kill(actor.handle, no_restart=True)

    def answers(self, asked: Mapping[Key, Any], patience: float | None = None) -> "dict[Key, Any]":
        """Wait for the answers of actors. An actor that is lost has an exception in place of its answer."""
        try:
            return dict(zip(asked, self._ray.get(list(asked.values()), timeout=patience), strict=True))
        except self.errors:
            found: dict[Key, Any] = {}
            end = None if patience is None else time.monotonic() + patience
            for key, reference in asked.items():
                try:
                    left = None if end is None else max(0.0, end - time.monotonic())
                    found[key] = self._ray.get(reference, timeout=left)
                except self.errors as error:
                    found[key] = error
            return found

    def _new_actor(self, *, num_cpus: int, node: str | None = None) -> Any:
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        strategy = "SPREAD" if node is None else NodeAffinitySchedulingStrategy(node, soft=False)
        options = {"num_cpus": num_cpus, "max_restarts": 0, "scheduling_strategy": strategy}
        return self._ray.remote(RayActor).options(**options).remote(self._recipe, self._layout)

    def _introduced(self, handles: Sequence[Any], patience: float) -> list[Actor]:
        """Return the actors that start, as long as another one starts within `patience` seconds. End the others."""
        asked = {handle.introduce.remote(): handle for handle in handles}
        found: list[Actor] = []
        waiting = list(asked)
        while waiting:
            ready, waiting = self._ray.wait(waiting, timeout=patience)
            if not ready:
                break
            handle = asked.pop(ready[0])
            try:
                introduction: Introduction = self._ray.get(ready[0])
            except self.errors as error:
                self._why = why_ray_failed(error)
                continue
            if introduction.version != __version__:
                self._why = f"node {introduction.host} has alphamepol {introduction.version} instead of {__version__}"
                self._ray.kill(handle, no_restart=True)
                continue
            found.append(Actor(handle, introduction))
        for handle in asked.values():
            self._ray.kill(handle, no_restart=True)
        return found


def _check_address_of_cluster(address: str | None) -> None:
    """Raise an `OSError` if nobody answers at an address HOST:PORT. Ray itself would try for minutes."""
    host, _, port = (address or "").rpartition(":")
    if host and port.isdecimal():
        socket.create_connection((host.strip("[]"), int(port)), REACHED).close()


REASONS = {
    "running low on memory": "the node ran out of memory",
    "node has died": "its node was lost",
    "unavailable": "it can no longer be reached",
    "worker process has died": "its process died",
}
"""The reasons of a loss by words of Ray's messages, which are long."""


def why_ray_failed(error: Exception) -> str:
    """Return the reason of an error of Ray in a few words."""
    text = re.sub(r"\x1b\[[\d;]*m", "", str(error))
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    raised = [line for line in lines if re.match(r"[\w.]*(Error|Exception|Exit|Interrupt)\b", line)]
    reason = next((reason for words, reason in REASONS.items() if words in text), "")
    return (raised[-1:] or [reason or (lines or [type(error).__name__])[0]])[0][:300].rstrip(".")
