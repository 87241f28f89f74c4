"""Suspects: executions that were lost with their worker, and how the one that kills is found.

A handler that runs in the replica's process can end that process: `os._exit`, a crash in native
code, too much memory. Everything that ran beside it is lost as well, and nothing tells which one
did it. The row of an execution counts two things:

- `losses`: how often a worker was lost with it since it was fired, or since an operator retried it.
  A loss is not an attempt: each one adds one to `attempts_allowed`, so the attempt number still
  grows with every start (it is part of the fence and is sent to targets).
- `suspicion`: how many of the latest attempts in a row were lost. 0: it is no suspect.

Who decides:

- Recovery raises the suspicion by one, for each lost execution that ran in the replica's process.
  HTTP targets cannot kill a replica: their suspicion stays 0.
- Any other outcome sets it to 0. Only the worker itself reports those, so the worker survived.
- The claim isolates suspects by rows: a replica runs at most `TOGETHER` suspects of suspicion 1 at
  a time. A suspect of suspicion `ALONE` or more is the only suspect of its replica. Other
  executions run beside them; they are not suspected of anything.
- So a lost worker had at most one suspect of suspicion `ALONE` or more, and that one is blamed. The
  suspicion is on the row, so no replica has to know what else the worker ran, and it does not
  matter which replicas recover its executions, in how many batches, and when.
- Blamed `kills_allowed` times in a row (a setting, 3), an execution is DEAD.

Why not alone at once: most workers are lost for reasons of their own, such as a machine that goes
away, and then nothing that they ran is to blame. One by one, 200 executions of 30 s would take
50 minutes on two replicas.

Each failure:

- The recovering replica dies: its transaction is undone, the leases have still expired, and the
  next replica to look counts the loss. Each loss is counted once, in the statement that ends the
  attempt and is fenced by its lease token.
- A replica dies again while it runs suspects: that is the next loss.
- A worker was only cut off and reports LOST itself: the same loss. If another replica was faster,
  the report is refused.
- Two different executions kill: they are suspects apart from each other after two losses, and each
  of them is blamed for its own kills.
- It kills every second time: an attempt that fails in between clears it and uses up an attempt, so
  it ends after its attempts at the latest.
- A new execution kills a worker beside a suspect of suspicion `ALONE`: the suspect is blamed once
  for what it has not done. It takes `kills_allowed` such coincidences in a row to end it, and the
  new one is a suspect itself from then on. The same holds for workers that are killed from outside:
  where that happens all the time, raise `kills_allowed`.
- A replica of the previous release knows no suspects and may run several: during a rolling upgrade
  the blame can fall on several executions at once.
"""

from typing import Final

# The suspects of suspicion 1 that a replica runs at a time.
TOGETHER: Final = 8
# From this suspicion on, an execution is the only suspect of its replica.
ALONE: Final = 2


def kills(suspicion: int) -> int:
    """Return how often an execution is blamed for the loss of its worker."""
    return max(suspicion - ALONE, 0)
