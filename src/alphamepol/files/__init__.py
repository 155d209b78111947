"""Files: whole or not there, and read with care."""
