"""How long the tests wait for a condition."""

# Seconds. It costs time only if a test fails: on a busy machine a process may take ten times as
# long to start as on an idle one, and stall for some seconds.
PATIENCE = 120.0
