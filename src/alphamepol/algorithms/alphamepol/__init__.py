"""αMEPOL, and MEPOL, which is αMEPOL with α = 1."""
