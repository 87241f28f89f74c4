"""Actors: who acts, in which context, how changes are attributed, and how actors authenticate."""
