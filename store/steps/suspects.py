"""Suspects: executions that were lost with their worker, and how the culprit is found.

A handler that runs in the replica's process can end that process: `os._exit`, a crash in native
code, too much memory. All executions of the process are lost with it, and nothing shows which one
was the cause. The row of an execution has two counters:

- `losses`: how often a worker was lost with it since it was fired, or since an operator retried it.
  A loss is not an attempt: each one adds one to `attempts_allowed`, so the attempt number still
  grows with every start (it is part of the fence and is sent to targets).
- `suspicion`: how many of the last attempts in a row were lost. 0: it is not a suspect.

The rules:

- Recovery increments the suspicion of each lost execution that ran in the replica's process. HTTP
  targets cannot kill a replica: their suspicion stays 0.
- Any other outcome resets it to 0. Only the worker itself reports those, so the worker survived.
- The claim isolates suspects by rows: a replica runs at most `TOGETHER` suspects of suspicion 1 at
  a time. A suspect of suspicion `ALONE` or more is the only suspect of its replica. Executions that
  are not suspects run at the same time.
- So a lost worker had at most one suspect of suspicion `ALONE` or more, and that one is blamed. The
  suspicion is in the row, so no replica has to know what else the worker ran, and it does not
  matter which replicas recover its executions, in how many batches, and when.
- An execution that is blamed `kills_allowed` times in a row (a setting, 3) is DEAD.

Suspects do not run alone from the start, because most workers are lost for other reasons, such as
the failure of a machine. One by one, 200 executions of 30 s would take 50 minutes on two replicas.

Failures:

- The recovering replica dies: its transaction is rolled back, the leases are still expired, and the
  next replica counts the loss. Each loss is counted once, in the statement that ends the attempt
  and is fenced by its lease token.
- A replica dies again while it runs suspects: that is the next loss.
- A worker was only disconnected and reports LOST itself: the same loss. If another replica was
  faster, the report is refused.
- Two different executions kill workers: they are isolated from each other after two losses, and
  each of them is blamed for its own kills.
- An execution kills its worker every second time: a failed attempt in between resets the suspicion
  and uses up an attempt, so it ends after its attempts at the latest.
- A new execution kills a worker that also runs a suspect of suspicion `ALONE`: the suspect is
  blamed once for the other. It takes `kills_allowed` such coincidences in a row to end it, and the
  new one is a suspect from then on. The same applies to workers that are killed from outside: if
  that happens often, raise `kills_allowed`.
- A replica of the previous release does not know suspects and may run several: during a rolling
  upgrade, several executions can be blamed at once.
"""

from typing import Final

# How many suspects of suspicion 1 a replica runs at a time.
TOGETHER: Final = 8
# From this suspicion on, an execution is the only suspect of its replica.
ALONE: Final = 2


def kills(suspicion: int) -> int:
    """Return how often an execution is blamed for the loss of its worker."""
    return max(suspicion - ALONE, 0)
