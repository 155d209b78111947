"""DIAYN: skills that can be told apart."""
