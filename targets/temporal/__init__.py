"""Temporal targets: one workflow for each execution, which attempts start or find, and wait for.

The workflow id is the execution id. Temporal allows one open workflow with an id, and this protocol
also refuses a second one after a success. So an attempt never starts work that an earlier attempt
has under way or has done:

- **Conflict policy `USE_EXISTING`.** A start while a workflow is open attaches to it.
- **Reuse policy `ALLOW_DUPLICATE_FAILED_ONLY`.** After a workflow that failed, timed out, was
  cancelled or terminated, a start is a new run with the same workflow id. After a success it is
  refused with the id of that run, whose result the attempt takes.
- **Request id `<execution id>:<attempt>`.** A start that is sent twice is one run, even if that run
  has ended.

One attempt:

1. Start, or attach. If an earlier attempt has asked that workflow to cancel, after its timeout, the
   attempt waits for the end of the clean-up, and then starts a new run.
2. Wait for the closing event by long polls. The lease thread of the replica renews the lease.
   A workflow that continues as new is followed.
3. The closing event ends the attempt: `outcomes`.

Crash points:

- **Replica, before the start.** Its lease expires; nothing was started.
- **Replica, after the start.** Its lease expires, and the attempt is lost. The next attempt
  attaches to the open workflow, or takes its result. If the workflow has failed meanwhile, the next
  attempt starts a new run.
- **Lease lost, or the replica shuts down.** The workflow continues, and the next attempt attaches.
- **Temporal down at the start.** The attempt fails and is retried. If the workflow was started
  anyway, the retry attaches.
- **Temporal down during the wait.** The attempt keeps polling until its timeout: a failed attempt
  would use up retries while the workflow is well.
- **Timeout, cancel.** The replica asks Temporal to cancel the workflow, which then cleans up. It
  does not wait for that.
- **Replica dead when a user cancels, or Temporal down when the last attempt times out.** Another
  replica cancels the workflow (`scheduler/replica/left_work_loop.py`). Temporal ends it at its
  execution timeout at the latest: the schedule's `timeout` and a minute, from the start of the
  workflow.

The messages are those of Temporal's library, the connection is a channel of grpcio. The library's
own client runs a Rust runtime in the process, whose threads can hang or crash the interpreter when
a replica exits (docs/decisions/0045).
"""
