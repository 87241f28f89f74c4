"""Fault runs: break real processes while they work, and check the results.

A run has these steps:

1. A separate Postgres is started, the tables are created, and a workload (`workload`) is applied
   with the product's own command: tenants with schedules that are due every second, schedules
   around a DST change, HTTP targets, and handlers that are slow, hang, fail or block a thread.
2. Several schedulers run on it. Each is a real process (`forkserver`) with the same entry point as
   `tenantcron run`. The faults injected into each one are drawn from the seed when it starts: when
   or where it is killed or stopped, the offset of its clock, which network it uses, and whether it
   receives notifications.
   Clients submit tasks to it (`submitter`), through the SQL function and the API.
3. Meanwhile faults (`small_faults`, `outages`) break what the schedulers share: the database, the
   network, the limits, tenants, manifests, cursors. A primary is killed and its standby promoted
   (`servers`), a network goes silent, a disk is full (`disk`). A sampler (`sampler`) queries the
   database several times a second.
4. At the end all faults are healed. Everything that was due until then must finish.
5. The checkers (`checker`, `task_checker`) compare the database and the effects with the expected
   results.

Why the verdict can be trusted:

- The expected occurrences are computed by `expectation` from the manifests, minute by minute of the
  calendar. It shares no code with the product and does not use cursors.
- Effects are counted outside the database, by the handlers (an appended line each, which survives a
  killed process) and by the HTTP service (by idempotency key).
- A check that had nothing to examine is visible: the tables show how often each fault struck and
  how many rows, effects and snapshots each check has examined.
- `mutants` are builds of the product with one guard removed. If the harness does not detect one of
  them, the harness is broken.

A seed repeats the plan: the workload, the injected faults, and the order and times of the shared
faults. The operating system decides how the processes interleave, so two runs of a seed are
similar, not identical.

Not covered: the machine itself. There is no power failure: the embedded server does not wait for
the disk (fsync is off), and the disk of the stock server loses nothing.
"""
