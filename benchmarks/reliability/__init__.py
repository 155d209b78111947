"""Campaigns that try to break the package: stops, signals, odd command lines, long use, and hostile files."""
