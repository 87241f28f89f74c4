"""`python -m faults`: break running schedulers and check the results.

    python -m faults                                 one seed after another, until Ctrl-C
    python -m faults --seed 7 --seeds 1 --for 60     one seed, all faults, one minute
    python -m faults --seeds 10 --kills 2000         ten seeds, at least 2,000 kills each
    python -m faults --seeds 1 --only-faults kill,clock
    python -m faults --seeds 5 --database debian     on Debian's PostgreSQL 15 with its defaults
    python -m faults --remote celery --seeds 1       work at Celery; the broker is killed, too
    python -m faults --mutant all                    all broken builds, each until it is caught
    python -m faults --mutant no-fence

The exit code is 0 if there are no findings, else 1; with mutants, 0 if all are caught.
"""

import argparse
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from itertools import count
from types import FrameType

from faults.catalog import names
from faults.hunt import control, hunt
from faults.mutants import CONTROL, MUTANTS
from faults.options import Options, Verdict
from faults.postgres import Kind
from faults.remote_workload import Remote
from faults.report import details, mutant_table, summary
from faults.run import run


def main(argv: Sequence[str] | None = None) -> int:
    """Run the seeds and print the verdict."""
    arguments = _parser().parse_args(argv)
    signal.signal(signal.SIGTERM, _terminate)
    if arguments.mutant:
        return _hunt(arguments.mutant, arguments.seed)
    verdicts: list[Verdict] = []
    with suppress(KeyboardInterrupt):
        for seed in count(arguments.seed):
            if len(verdicts) == arguments.seeds:
                break
            verdicts.append(run(_options(arguments, seed)))
            _print(verdicts[-1])
    print("\n".join(["", *summary(verdicts), "", *details(verdicts)]))
    return int(any(verdict.findings.any for verdict in verdicts))


def _hunt(name: str, seed: int) -> int:
    """Check that the harness catches broken builds."""
    chosen = [mutant for mutant in MUTANTS if name in (mutant.name, "all")]
    if not chosen and name != CONTROL.name:
        raise SystemExit(
            f"no such mutant: {name}; use one of {[mutant.name for mutant in MUTANTS]}"
        )
    clean = control(seed) if name in (CONTROL.name, "all") else None
    if clean is not None:
        print(*clean.lines, sep="\n", flush=True)
    results = []
    for mutant in chosen:
        results.append(hunt(mutant, seed))
        print(*results[-1].lines, sep="\n", flush=True)
    print("\n".join(["", *mutant_table([*([clean] if clean else []), *results])]))
    all_caught = all(result.caught_by for result in results)
    return int(not all_caught or (clean is not None and bool(clean.caught_by)))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="faults", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seed", type=int, default=1, help="the first seed")
    parser.add_argument("--seeds", type=int, help="number of seeds (default: until Ctrl-C)")
    parser.add_argument("--for", dest="seconds", type=float, default=60.0, help="seconds per seed")
    parser.add_argument("--kills", type=int, default=0, help="continue until this many kills")
    parser.add_argument("--steady", type=int, default=320, help="schedules that fire every second")
    parser.add_argument(
        "--victims", type=int, default=5, help="number of schedulers to kill or stop"
    )
    parser.add_argument(
        "--lifetime", type=float, default=0.5, help="their mean lifetime in seconds"
    )
    parser.add_argument(
        "--database",
        choices=[kind.value for kind in Kind],
        default=Kind.EMBEDDED.value,
        help="the embedded server, or Debian's PostgreSQL 15 with its default settings",
    )
    parser.add_argument(
        "--remote",
        choices=[remote.value for remote in Remote],
        help="run the work at remote workers, which are killed as well",
    )
    parser.add_argument("--mutant", help="name of a broken build, or all")
    parser.add_argument(
        "--only-faults", default=",".join(names()), help="names of faults, separated by commas"
    )
    return parser


def _options(arguments: argparse.Namespace, seed: int) -> Options:
    faults = frozenset(arguments.only_faults.split(",")) - {""}
    if unknown := faults - set(names()):
        raise SystemExit(f"no such fault: {', '.join(sorted(unknown))}; use one of {names()}")
    return Options(
        seed,
        arguments.seconds,
        faults,
        steady=arguments.steady,
        victims=arguments.victims,
        lifetime=arguments.lifetime,
        kills=arguments.kills,
        kind=Kind(arguments.database),
        remote=Remote(arguments.remote) if arguments.remote else None,
        report=_print_progress,
    )


def _print_progress(message: str) -> None:
    """Print progress to stderr, because a run takes minutes and stdout is for the tables."""
    print(message, file=sys.stderr, flush=True)


def _terminate(_: int, __: FrameType | None) -> None:
    """Exit in order, so that the server does not outlive the run."""
    raise SystemExit(143)


def _print(verdict: Verdict) -> None:
    print("\n".join(summary([verdict])), flush=True)
    if verdict.findings.any:
        print(*verdict.findings.lines(), sep="\n")
        print("the last faults:", *verdict.journal.lines[-15:], sep="\n  ", flush=True)


if __name__ == "__main__":
    sys.exit(main())
