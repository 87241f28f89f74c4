"""How long the tests wait for what must come."""

# Seconds. It only costs time where something is wrong: on a busy machine a process may take ten
# times as long to start as on an idle one, and stand still for some seconds in between.
PATIENCE = 120.0
