"""The parts of HTML pages."""
