"""`python -m faults`: break the scheduler while it works, and count what became of it.

    python -m faults                                 seed after seed, until Ctrl-C
    python -m faults --seed 7 --seeds 1 --for 60     one seed, all faults, one minute
    python -m faults --seeds 10 --kills 2000         ten seeds, not before 2,000 kills each
    python -m faults --seeds 1 --only-faults kill,clock
    python -m faults --seeds 5 --database debian     on Debian's PostgreSQL 15 as it comes
    python -m faults --mutant all                    the broken builds, each until it is caught
    python -m faults --mutant no-fence

The exit code is 0 if nothing is wrong, 1 if anything is; with mutants, 0 if all are caught.
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
from faults.report import details, hunted, summary
from faults.run import run


def main(argv: Sequence[str] | None = None) -> int:
    """Run the seeds and tell the verdict."""
    arguments = _parser().parse_args(argv)
    signal.signal(signal.SIGTERM, _leave)
    if arguments.mutant:
        return _hunt(arguments.mutant, arguments.seed)
    verdicts: list[Verdict] = []
    with suppress(KeyboardInterrupt):
        for seed in count(arguments.seed):
            if len(verdicts) == arguments.seeds:
                break
            verdicts.append(run(_options(arguments, seed)))
            _tell(verdicts[-1])
    print("\n".join(["", *summary(verdicts), "", *details(verdicts)]))
    return int(any(one.findings.any for one in verdicts))


def _hunt(name: str, seed: int) -> int:
    """Let the harness prove itself on broken builds."""
    chosen = [one for one in MUTANTS if name in (one.name, "all")]
    if not chosen and name != CONTROL.name:
        raise SystemExit(f"no such mutant: {name}; there are {[one.name for one in MUTANTS]}")
    clean = control(seed) if name in (CONTROL.name, "all") else None
    if clean is not None:
        print(*clean.words, sep="\n", flush=True)
    caught = []
    for one in chosen:
        caught.append(hunt(one, seed))
        print(*caught[-1].words, sep="\n", flush=True)
    print("\n".join(["", *hunted([*([clean] if clean else []), *caught])]))
    return int(not all(one.by for one in caught) or (clean is not None and bool(clean.by)))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="faults", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seed", type=int, default=1, help="the first seed")
    parser.add_argument("--seeds", type=int, help="how many; else until Ctrl-C")
    parser.add_argument("--for", dest="seconds", type=float, default=60.0, help="seconds a seed")
    parser.add_argument("--kills", type=int, default=0, help="go on until there are so many")
    parser.add_argument("--steady", type=int, default=320, help="schedules that fire every second")
    parser.add_argument("--mortals", type=int, default=5, help="schedulers that are struck")
    parser.add_argument("--life", type=float, default=0.5, help="seconds they live, on average")
    parser.add_argument(
        "--database",
        choices=[kind.value for kind in Kind],
        default=Kind.EMBEDDED.value,
        help="the embedded server, or Debian's PostgreSQL 15 with its default settings",
    )
    parser.add_argument("--mutant", help="a broken build by its name, or all of them")
    parser.add_argument(
        "--only-faults", default=",".join(names()), help="by their names, with commas between"
    )
    return parser


def _options(arguments: argparse.Namespace, seed: int) -> Options:
    faults = frozenset(arguments.only_faults.split(",")) - {""}
    if unknown := faults - set(names()):
        raise SystemExit(f"no such fault: {', '.join(sorted(unknown))}; there are {names()}")
    return Options(
        seed,
        arguments.seconds,
        faults,
        steady=arguments.steady,
        mortals=arguments.mortals,
        life=arguments.life,
        kills=arguments.kills,
        kind=Kind(arguments.database),
        tell=_tell_progress,
    )


def _tell_progress(words: str) -> None:
    """A run takes minutes. The tables go elsewhere."""
    print(words, file=sys.stderr, flush=True)


def _leave(_: int, __: FrameType | None) -> None:
    """End in order: the server must not outlive the run."""
    raise SystemExit(143)


def _tell(verdict: Verdict) -> None:
    print("\n".join(summary([verdict])), flush=True)
    if verdict.findings.any:
        print(*verdict.findings.told(), sep="\n")
        print("the last faults:", *verdict.journal.lines[-15:], sep="\n  ", flush=True)


if __name__ == "__main__":
    sys.exit(main())
