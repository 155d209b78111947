"""Reading and writing of files: atomic writes, JSON, arrays, and locks of folders."""
