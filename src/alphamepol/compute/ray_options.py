"""The options with which this package joins a Ray cluster, or starts one of its own."""

import os
import secrets
from typing import Any

from alphamepol.compute.machine import machine_cores

QUIET = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}


def ray_options(address: str | None, cores: int | None = None) -> dict[str, Any]:
    """Return the arguments of `ray.init`, and set the environment variables that Ray reads when it is imported.

    Without an address, the arguments start a cluster on this machine, with all its cores unless a number is given.
    Nobody else can use that cluster, because it asks for a token that is written nowhere.
    """
    os.environ.update(QUIET)
    options: dict[str, Any] = {"address": address or "local", "log_to_driver": False, "logging_level": "ERROR"}
    if address is None:
        os.environ.update({"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)})
        os.environ.pop("RAY_ADDRESS", None)
        os.environ.setdefault("RAY_worker_niceness", "0")  # Ray's workers are as important as local ones
        options |= {"include_dashboard": False, "num_cpus": cores or machine_cores()}
    return options
