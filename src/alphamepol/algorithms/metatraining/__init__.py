"""Meta-training: MAML on random goals, DIAYN, and MAML on DIAYN's skills."""
