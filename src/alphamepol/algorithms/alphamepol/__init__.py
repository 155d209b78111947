"""αMEPOL, and MEPOL, which is αMEPOL with α = 1.

In the words of this folder: a *member* is one environment of the class. A *mini-batch* is B trajectories in one member,
which was drawn from p_M; an epoch has M = N/B mini-batches. A *particle* is the vector of a reached state whose entropy
counts. The particles of a mini-batch have one entropy. The *tail* is the ⌈αM⌉ mini-batches whose entropy is lowest. A
*neighbourhood* holds the k nearest neighbours of each particle within its mini-batch. Equations (E…) and (D…) are those
of docs/method.md.

Read `update.py` first (one seed), then `epoch.py` (all seeds) and `run.py`.
"""
