"""What computing takes: random keys, mapping over seeds and rows, devices, the machine."""
