"""Videos: frames with captions, and the files that hold them."""
