"""One trial of one peer, as it is kept in a file."""

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Run:
    """What was seen of a peer with so many of one kind of work."""

    peer: str
    # `at once`, `idle`, `drained`; or why there are no figures: `not installed`, `failed`.
    what: str
    number: int
    round: str = ""
    # Seconds to put it into the store, and until all processes were ready.
    held: float = 0.0
    ready: float = 0.0
    # While idle: memory of all processes, transactions (or commands of Redis) a minute, share of a
    # core with the server's.
    megabytes: float = 0.0
    questions: float = 0.0
    share: float = 0.0
    # How many started before we gave up, how many finished a second, and milliseconds late.
    started: int = 0
    rate: float = 0.0
    median: float = 0.0
    late: float = 0.0
    # Microseconds of computing for each, by all processes and the server.
    computing: float = 0.0

    def in_round(self, name: str) -> "Run":
        """Return it as a part of a round; ratios are made within one."""
        return replace(self, round=name)
