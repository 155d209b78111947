"""The classes of environments that have a name. Each class has a file."""
