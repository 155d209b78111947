"""αMEPOL, and MEPOL, which is αMEPOL with α = 1.

The words of this folder:

- A *member* is one environment of the class.
- A *mini-batch* holds B trajectories in one member, which is drawn from p_M. An epoch has M = N/B mini-batches.
- A *particle* holds the numbers of a reached state that count for the entropy. The particles of a mini-batch give one
  entropy.
- The *tail* of a policy is the ⌈αM⌉ mini-batches with the lowest entropies under that policy. The tail is chosen anew
  for every iterate θ_h of an update.
- A *neighbourhood* holds the k nearest neighbours of each particle within its mini-batch.
- The *perceived* input of a policy is the observation together with what the memory adds to it.
- A step is *valid* unless it comes after an early end of its trajectory.

Equations (E…) and (D…) are those of docs/method.md.

Read `update.py` first (one seed), then `epoch.py` (all seeds) and `run.py`.
"""
