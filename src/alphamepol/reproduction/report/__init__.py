"""The page about runs: its headline, its story, the claims, the figures and the tables."""
