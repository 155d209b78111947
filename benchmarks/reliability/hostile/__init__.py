"""An attack with hostile run folders and policy files, which are made from real ones (docs/reliability.md)."""
