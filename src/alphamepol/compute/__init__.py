"""Tools for computing: random keys, mapping over seeds and rows, devices, the machine, processes, and a stopwatch."""
