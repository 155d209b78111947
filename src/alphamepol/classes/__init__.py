"""The classes of environments that have a name, one file each."""
