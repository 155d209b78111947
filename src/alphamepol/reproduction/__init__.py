"""The claims of the paper, the runs that decide them, and the report."""
