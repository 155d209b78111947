"""Measure one group in its own process: `python -m benchmarks.group NAME ROUNDS SEEDS OUT.json`."""

import importlib
import json
import resource
import sys
from pathlib import Path
from typing import Any

GROUPS = {
    "pretraining": "benchmarks.pretraining:measure",
    "memories": "benchmarks.pretraining:measure_memories",
    "off-policy-loop": "benchmarks.off_policy_loop:measure",
    "exact-kl": "benchmarks.off_policy_loop:measure_exact_kl",
    "neighbours": "benchmarks.neighbours:measure",
    "finetuning": "benchmarks.finetuning:measure",
    "metatraining": "benchmarks.metatraining:measure",
    "minigrid": "benchmarks.minigrid:measure",
    "hosts": "benchmarks.hosts:measure",
    "physics": "benchmarks.physics:measure",
    "gpu-physics": "benchmarks.gpu_physics:measure",
    "starting": "benchmarks.starting:measure",
    "demo": "benchmarks.starting:measure_demo",
}


def measure(name: str, rounds: int, seeds: int) -> dict[str, Any]:
    module, _, function = GROUPS[name].partition(":")
    more = {"seeds": seeds} if module in ("benchmarks.pretraining", "benchmarks.neighbours") else {}
    measured = getattr(importlib.import_module(module), function)(rounds, **more)
    # JAX is imported only now: a group that only starts other processes must not hold a device while they run.
    import jax

    from alphamepol.compute.devices import device_name
    from benchmarks.measuring import bandwidth, matmul_rate

    whose = resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN
    peak = max(resource.getrusage(who).ru_maxrss for who in whose) / 2**20
    stats: dict[str, int] = jax.devices()[0].memory_stats() or {}
    return {
        "device": device_name(),
        "rounds": rounds,
        "matmul_gflops_per_second": matmul_rate() / 1e9,
        "bandwidth_gb_per_second": bandwidth() / 1e9,
        "peak_memory_gib": peak,
        **({"peak_device_memory_gib": stats["peak_bytes_in_use"] / 2**30} if "peak_bytes_in_use" in stats else {}),
        "measurements": [one.to_dict() for one in measured],
    }


if __name__ == "__main__":
    name, rounds, seeds, out = sys.argv[1:]
    Path(out).write_text(json.dumps(measure(name, int(rounds), int(seeds))))
