"""Experiments on generated classes: how well policies explore members that nobody has trained on.

The commands `python -m benchmarks.unseen`, `benchmarks.unseen.specialists` and `benchmarks.unseen.finetuning` take a
FOLDER, in which runs are kept and resumed, and a file OUT.json, to which entries are added under a lock. Several of
them can therefore run side by side with the same FOLDER and OUT.json.
"""
