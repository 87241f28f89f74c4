"""Handlers in their own process: `@saga("name", isolation="process")`.

Three processes are involved. The **scheduler** starts a **fork server** if a loaded handler
requests isolation. The fork server only imports the handler modules: it has no threads, no
connections and no event loop. For each attempt it forks a **child**, which runs the handler once
and exits.

- `forkserver` is the scheduler's side of the fork server, `server` is the fork server itself.
- `isolated` is the handler as the executor sees it: an async function that runs a child.
- `child` runs in the child, `orders` is its input, `messages` is its output.

The protocol: scheduler and child share a socket. The scheduler sends one order. The child sends
messages, one JSON document per line: log lines, requests for tokens and logins, and finally how the
handler ended. Results and logs of a handler use this socket, too. The format is JSON rather than
pickle, because loading a pickle from a child could run code in the scheduler.

How an attempt ends:

- The child sends how the handler ended, and exits. An exception is sent as text with its kind:
  `Retry`, `Fail` or any other.
- The child exits without that: the attempt fails. The fork server is its parent and reports the
  signal or the exit status.
- The attempt is stopped (timeout, cancellation, shutdown): the fork server sends SIGUSR1, which
  raises `Cancelled` in a plain handler and cancels an async one. If the child is still running
  after the grace period, it sends SIGKILL. A child that lost its lease gets SIGKILL immediately. A
  child leads a process group, and SIGKILL goes to the group.
- The fork server exits: its children die with it (PR_SET_PDEATHSIG), their attempts fail, and the
  next attempt starts a new server.
- The scheduler exits: the fork server kills its children and exits. A child whose socket is closed
  also kills itself.

The fork server and its children ignore signals that a terminal or a supervisor sends to the process
group: the scheduler drains and decides.
"""
