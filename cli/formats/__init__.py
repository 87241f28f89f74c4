"""How answers are shown: to people on a terminal, to GitHub, to code scanners."""
