"""The page that follows runs while they train: its server, what it reads from run folders, and where policies go."""
