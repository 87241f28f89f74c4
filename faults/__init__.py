"""Real processes that are broken while they work, and a checker that counts what became of it.

The protocol of a run:

1. A Postgres of its own is started, the tables are made, and a workload (`workload`) is applied
   by the product's own command: tenants whose schedules come due every second, schedules around a
   change of the clock, HTTP targets, handlers that are slow, hang, fail or block a thread.
2. Several schedulers run on it. Each is a real process (`forkserver`) that takes the way of
   `tenantcron run`. From its first moment each has a fate, drawn from the seed: when or where it
   is killed or stopped, what its clock shows, which network it has, what it does not hear.
3. Meanwhile faults (`breaking`, `outages`) break what the schedulers share: the database, the
   network, the limits, tenants, manifests, cursors. A primary is killed and its standby promoted
   (`servers`), a network goes silent, a disk is full (`disk`). A sampler (`sampler`) looks at the
   database several times a second.
4. When the time is up everything is healed. What was due until then has to come to its end.
5. The checker (`checker`) holds the database and the effects against what had to be.

Why its verdict can be trusted:

- What must have fired is reckoned by `expectation` from the manifests, minute by minute of the
  calendar. It shares no code with the product, and knows nothing of cursors.
- Effects are counted outside of the database, by the handlers (an appended line each, which
  outlasts a killed process) and by the HTTP service (by idempotency key).
- Nothing is said about a rule that had no occasion to be broken: the table shows how often each
  fault struck and how many rows, effects and snapshots each check has looked at.
- `mutants` are builds of the product with one guard taken out. If the harness does not notice one
  of them, it is the harness that is broken.

A seed repeats the plan: the workload, the fates, the order and the times of the faults. How the
processes interleave is up to the machine, so two runs of a seed are alike, not equal.

Not broken here: the machine itself. A power cut is not among the faults: the embedded server does
not wait for the disk (fsync is off), and the disk of the stock server loses nothing.
"""
