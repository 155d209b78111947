"""`python -m alphamepol` is the same as `alphamepol`."""

from alphamepol.cli import command_line

if __name__ == "__main__":
    command_line()
