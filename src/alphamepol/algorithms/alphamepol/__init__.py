"""αMEPOL, and MEPOL, which is αMEPOL with α = 1.

In the words of this folder: a *member* is one environment of the class. A *mini-batch* is B trajectories in one member,
which was drawn from p_M; an epoch has M = N/B mini-batches. A *particle* holds the numbers of a reached state that the
entropy is taken over. The particles of a mini-batch have one entropy. The *tail* of a policy is the ⌈αM⌉ mini-batches
whose entropy under it is lowest: it is chosen anew for every θ_h. A *neighbourhood* holds the k nearest neighbours of
each particle within its mini-batch. What a policy has *perceived* is the observation and what its memory adds. Steps
after an early end are not *valid*. Equations (E…) and (D…) are those of docs/method.md.

Read `update.py` first (one seed), then `epoch.py` (all seeds) and `run.py`.
"""
