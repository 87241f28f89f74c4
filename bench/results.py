"""The result of one trial, as saved in a file."""

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Run:
    """The result of a peer with a number of schedules or jobs."""

    peer: str
    # `at once`, `idle`, `drained`; or why there are no figures: `not installed`, `failed`.
    what: str
    number: int
    round: str = ""
    # Seconds to load the work into the store, and until all processes were ready.
    load_seconds: float = 0.0
    ready_seconds: float = 0.0
    # While idle: memory of all processes, transactions (or Redis commands) per minute, CPU share
    # including the server.
    megabytes: float = 0.0
    queries: float = 0.0
    share: float = 0.0
    # How many started before the timeout, how many finished per second, and lateness in
    # milliseconds.
    started: int = 0
    rate: float = 0.0
    median: float = 0.0
    p99: float = 0.0
    # CPU microseconds per execution, of all processes and the server.
    cpu: float = 0.0

    def in_round(self, name: str) -> "Run":
        """Return it as part of a round; ratios are computed within a round."""
        return replace(self, round=name)
