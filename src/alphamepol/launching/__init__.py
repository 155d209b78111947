"""Many runs: as processes of this machine, as tasks of a Ray cluster, or as arrays of a Slurm cluster."""
