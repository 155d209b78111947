"""DIAYN: learn skills that can be told apart, without reward."""
