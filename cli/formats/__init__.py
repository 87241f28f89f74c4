"""How diagnostics are shown: to people, to programs, to GitHub, to code scanners."""
