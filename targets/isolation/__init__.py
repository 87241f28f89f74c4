"""Handlers in processes of their own: `@saga("name", isolation="process")`.

Three processes take part. The **scheduler** starts a **fork server** if a loaded handler wants
isolation, and none otherwise. The fork server has imported the handler modules and nothing else: it
has no threads, no connections and no event loop. For each attempt it forks a **child**, which runs
the handler once and ends.

- `forkserver` is the scheduler's end of the fork server, `server` is the fork server itself.
- `isolated` is the handler as the executor sees it: an async function that runs a child.
- `child` is what happens in the child, `orders` what it is given, `messages` what it sends back.

How the two talk: scheduler and child share a socket. The scheduler sends one order. The child
sends messages, one JSON document a line: log lines while it runs, requests for tokens, and at last
how the handler ended. Everything that a handler returns or logs travels that way. JSON and not
pickle: what comes out of a child is data, whatever the handler has done to it.

How an attempt ends:

- The child sends how the handler ended, and exits. What it raised is text by then, with its kind:
  `Retry`, `Fail` or anything else.
- The child is gone without that: a failed attempt. The fork server, whose child it was, knows the
  signal or the exit status.
- The attempt is stopped (timeout, cancellation, shutdown): the fork server sends SIGUSR1, which
  raises `Cancelled` in a plain handler and cancels an async one, and SIGKILL if the child is still
  there after the grace. A child whose lease is lost gets SIGKILL at once. A child leads a process
  group, and SIGKILL goes to the group.
- The fork server is gone: its children die with it (PR_SET_PDEATHSIG), their attempts have failed,
  and the next attempt starts a new server.
- The scheduler is gone: the fork server kills its children and ends. A child that reads the end of
  its own socket kills itself, too.

Signals that a terminal or a supervisor sends to a group of processes are ignored by the fork server
and its children: the scheduler drains, and decides.
"""
