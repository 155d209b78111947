#!/usr/bin/env bash
# Stop the Slurm cluster that start.sh has started in FOLDER: benchmarks/slurm/stop.sh FOLDER
set -euo pipefail
for daemon in slurmd slurmctld munged; do
    if [ -s "$1/$daemon.pid" ]; then
        kill "$(cat "$1/$daemon.pid")" 2> /dev/null || true
    fi
done
