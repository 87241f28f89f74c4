"""The cost of `tenantcron validate` for a commit: start-up, one manifest, a folder of a thousand.

Run it with `.venv/bin/python bench/validate.py`, or with the others by `make bench`. It builds a
wheel of the tree and installs it, with check-jsonschema, into a separate environment, so that it
measures what users install. Commands are interleaved within one run, and figures are given as
ratios, because absolute times depend more on the machine than on the code.
"""

import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SCHEMA = ROOT / "manifests" / "manifest.schema.json"

RUNS = 21
SCHEDULES = 20
MANY, FEW = 1_000, 100

AT_MOST_BARE = 15.0
FASTER_THAN_CHECK_JSONSCHEMA = 1.5
MANIFESTS_PER_SECOND = 150.0
FLAT = 1.1

ZONES = (
    "UTC", "Europe/London", "Europe/Berlin", "Europe/Madrid", "America/New_York",
    "America/Chicago", "America/Los_Angeles", "America/Sao_Paulo", "Asia/Tokyo", "Asia/Kolkata",
    "Asia/Kathmandu", "Australia/Sydney", "Australia/Lord_Howe", "Pacific/Auckland",
    "Pacific/Chatham", "Africa/Cairo",
)  # fmt: skip
POLICY = """\
[policy]
minimum_interval = "15m"
allowed_hosts = ["*.internal"]

[policy.presets]
month_end = {monthly = {day = "last", at = "22:00"}, timezone = "Europe/London"}
"""

Command = Sequence[str | Path]


@dataclass(frozen=True, slots=True)
class Usage:
    """The resources of one run of a command; CPU time is more stable on a busy machine."""

    seconds: float
    processor_seconds: float
    peak_mib: float


def main() -> None:
    """Measure everything and print it."""
    with tempfile.TemporaryDirectory(prefix="tenantcron-bench-") as scratch:
        folder = Path(scratch)
        bin_folder = install(folder)
        print(f"{datetime.now(UTC):%Y-%m-%d}, {os.cpu_count()} cores, ", end="")
        print(f"Python {sys.version.split()[0]}, medians of {RUNS} interleaved runs\n")
        (folder / "tenantcron.toml").write_text(POLICY, encoding="utf-8")
        single = folder / "single" / "acme.yaml"
        write(single, manifest("acme", random.Random(0)))  # noqa: S311 -- the same in every run
        compare_one(bin_folder, single)
        compare_folders(bin_folder, folder)
        show_imports(bin_folder, single)


def install(folder: Path) -> Path:
    """Install the tree as users do; return the folder of the commands."""
    wheels, environment = folder / "wheels", folder / "venv"
    pip = [sys.executable, "-m", "pip", "-qq", "--disable-pip-version-check"]
    finish([*pip, "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", wheels, ROOT])
    venv.create(environment, with_pip=True)
    bin_folder = environment / "bin"
    pip[0] = str(bin_folder / "python")
    constraints = folder / "constraints.txt"
    constraints.write_text(pinned_versions(), encoding="utf-8")
    finish(
        [*pip, "install", "--constraint", constraints, "check-jsonschema", *wheels.glob("*.whl")]
    )
    return bin_folder


def pinned_versions() -> str:
    """Return the lock without its hashes: what was built here has none."""
    lines = (ROOT / "locks" / "dev.txt").read_text(encoding="utf-8").splitlines()
    return "\n".join(line.removesuffix(" \\") for line in lines if "--hash" not in line)


def compare_one(bin_folder: Path, file: Path) -> None:
    """Compare the check of one manifest with the bare interpreter and with check-jsonschema."""
    lines = len(file.read_text(encoding="utf-8").splitlines())
    commands: dict[str, Command] = {
        "python -c pass": [bin_folder / "python", "-c", "pass"],
        "tenantcron validate": [bin_folder / "tenantcron", "validate", file],
        "check-jsonschema": [bin_folder / "check-jsonschema", "--schemafile", SCHEMA, file],
    }
    usages = interleaved(commands)
    medians = {
        name: statistics.median(usage.seconds for usage in usages[name]) for name in commands
    }
    bare, ours, theirs = medians.values()
    print(f"## One manifest, {SCHEDULES} schedules, {lines} lines\n")
    print("| command | median | minimum | multiple of bare interpreter | the same in CPU time |")
    print("|---|---|---|---|---|")
    for name, used in usages.items():
        least = min(usage.seconds for usage in used)
        ratio = processor_time(used) / processor_time(usages["python -c pass"])
        print(
            f"| `{name}` | {medians[name] * 1e3:.0f} ms | {least * 1e3:.0f} ms "
            f"| {medians[name] / bare:.1f} | {ratio:.1f} |"
        )
    print(f"\n- {ours / bare:.1f} times the bare interpreter: ", end="")
    print(verdict(ours / bare <= AT_MOST_BARE, f"at most {AT_MOST_BARE:g}"))
    print(f"- {theirs / ours:.1f} times faster than check-jsonschema: ", end="")
    faster = theirs / ours >= FASTER_THAN_CHECK_JSONSCHEMA
    print(verdict(faster, f"at least {FASTER_THAN_CHECK_JSONSCHEMA:g}") + "\n")


def compare_folders(bin_folder: Path, folder: Path) -> None:
    """Measure a folder of many manifests, and whether a smaller one needs less memory."""
    used: dict[int, list[Usage]] = {}
    for count in (FEW, MANY):
        below = folder / str(count)
        for number in range(count):
            tenant = f"tenant_{number:04}"
            rng = random.Random(number)  # noqa: S311 -- the same in every run
            write(below / f"{tenant}.yaml", manifest(tenant, rng))
        used[count] = [
            finish([bin_folder / "tenantcron", "validate", below], cwd=folder) for _ in range(3)
        ]
    print(f"## Folders, {SCHEDULES} schedules in each manifest, best of 3\n")
    print("| manifests | per second | per CPU second | peak memory |\n|---|---|---|---|")
    for count, usages in used.items():
        rate = count / min(usage.seconds for usage in usages)
        processor = count / min(usage.processor_seconds for usage in usages)
        print(f"| {count:,} | {rate:.0f} | {processor:.0f} | {peak(usages):.1f} MiB |")
    rate = MANY / min(usage.seconds for usage in used[MANY])
    print(f"\n- {rate:.0f} manifests per second: ", end="")
    print(verdict(rate >= MANIFESTS_PER_SECOND, f"at least {MANIFESTS_PER_SECOND:g}"))
    growth = peak(used[MANY]) / peak(used[FEW])
    print(f"- {growth:.2f} times the memory for {MANY // FEW} times the manifests: ", end="")
    print(verdict(growth <= FLAT, f"at most {FLAT:g}") + "\n")


def show_imports(bin_folder: Path, file: Path) -> None:
    """Show the most expensive imports of our start-up, beyond those of the bare interpreter."""
    python = bin_folder / "python"
    bare = {name for name, _ in imports([python, "-X", "importtime", "-c", "pass"])}
    script = bin_folder / "tenantcron"
    ours: dict[str, int] = {}
    for _ in range(5):  # the minimum of several runs, because single imports vary
        for name, own in imports([python, "-X", "importtime", script, "validate", file]):
            if name not in bare:
                ours[name] = min(own, ours.get(name, own))
    total = sum(ours.values())
    print(f"## Imports: {len(ours)} modules beyond the bare interpreter's, top ten\n")
    print("| module | own time | share |\n|---|---|---|")
    for name in sorted(ours, key=lambda name: -ours[name])[:10]:
        print(f"| `{name}` | {ours[name] / 1e3:.1f} ms | {ours[name] / total:.0%} |")
    print(f"| all {len(ours)} | {total / 1e3:.1f} ms | 100% |")


def imports(command: Command) -> Iterator[tuple[str, int]]:
    """Yield every import with its own microseconds, without its children."""
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    for line in done.stderr.splitlines():
        own, _, rest = line.removeprefix("import time:").partition("|")
        if own.strip().isdigit():
            yield rest.rpartition("|")[2].strip(), int(own)


def interleaved(commands: dict[str, Command]) -> dict[str, list[Usage]]:
    """Run the commands one after the other, repeatedly, so that noise affects all alike."""
    usages: dict[str, list[Usage]] = {name: [] for name in commands}
    for turn in range(RUNS + 1):
        for name, command in commands.items():
            usage = finish(command)
            if turn:  # the first turn warms the disk cache
                usages[name].append(usage)
    return usages


def processor_time(usages: Sequence[Usage]) -> float:
    """Return the median CPU time."""
    return statistics.median(usage.processor_seconds for usage in usages)


def finish(command: Command, cwd: Path | None = None) -> Usage:
    """Run a command, which must succeed, to completion."""
    began = time.perf_counter()
    process = subprocess.Popen(command, cwd=cwd, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - began
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"exit code {process.returncode}: {' '.join(map(str, command))}")
    return Usage(seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)


def peak(usages: Sequence[Usage]) -> float:
    """Return the maximum memory of all runs."""
    return max(usage.peak_mib for usage in usages)


def verdict(met: bool, wanted: str) -> str:
    """Return whether a figure meets its goal, as text."""
    return f"{'met' if met else 'MISSED'}, the goal is {wanted}"


def write(file: Path, text: str) -> None:
    """Write a file, and create its folder if needed."""
    file.parent.mkdir(exist_ok=True)
    file.write_text(text, encoding="utf-8")


def manifest(tenant: str, rng: random.Random) -> str:
    """Return a valid manifest with every form of timetable in it."""
    sagas = "".join(saga(number, rng) for number in range(SCHEDULES))
    nightly = f'{{daily: {{at: "0{rng.randrange(6)}:30"}}, timezone: {rng.choice(ZONES)}}}'
    return (
        f'version: "1.0"\ntenant: {tenant}\nmetadata:\n  name: {tenant.title()} Energy\n'
        f"schedules:\n  nightly: {nightly}\nsagas:\n{sagas}"
    )


def saga(number: int, rng: random.Random) -> str:
    """Return one saga; the first two use the short form."""
    name = f"saga_{number:02}"
    if number == 0:
        return f"  - name: {name}\n    trigger: scheduled:nightly\n"
    if number == 1:
        return f'  - name: {name}\n    trigger: "scheduled:rollup:{rng.randrange(60)} * * * *"\n'
    return f"""\
  - name: {name}
    trigger:
      scheduled:
        name: schedule_{number:02}
        description: Work number {number} of this tenant
        {timetable(number, rng)}
        timezone: {rng.choice(ZONES)}
        spread: {rng.randrange(1, 15)}m
        overlap: {rng.choice(("skip", "queue", "allow"))}
        timeout: {rng.randrange(1, 30)}m
        retry: {{max_attempts: {rng.randrange(1, 6)}, backoff: {rng.randrange(1, 9)}s}}
        priority: {rng.choice(("critical", "high", "medium", "low"))}
        payload:
          report: r{rng.randrange(10_000)}
          at: "{{{{fire_time}}}}"
    target:
      http: {{url: "https://billing.internal/run/{number}", headers: {{X-Team: billing}}}}
"""


def timetable(number: int, rng: random.Random) -> str:
    """Return one form of timetable; two in three are cron, with many kinds of fields."""
    minute, hour = rng.randrange(60), rng.randrange(24)
    at = f'at: "{hour:02}:{minute:02}"'
    forms = (
        f"daily: {{{at}}}",
        f"weekly: {{on: [mon, {rng.choice(('wed', 'thu', 'fri'))}], {at}}}",
        f"monthly: {{day: {rng.randrange(1, 29)}, {at}}}",
        f"every: {rng.randrange(16, 600)}m",
        f"once: 2099-{rng.randrange(1, 13):02}-{rng.randrange(1, 29):02}T{hour:02}:{minute:02}:00",
        "preset: month_end",
    )
    crons = (
        f"{minute} {hour} * * *",
        f"{minute % 20}-59/20 {hour % 12}-{hour % 12 + 8} * * mon-fri",
        f"{minute} {hour} {rng.randrange(1, 29)},L * *",
        f"{minute} */{rng.randrange(2, 9)} * * *",
        f"{minute} {hour} * {rng.randrange(1, 7)}-12/2 {rng.randrange(7)}#{rng.randrange(1, 5)}",
        f"{minute} {hour} {rng.randrange(1, 29)}W * *",
        f"{minute} {hour % 12},{hour % 12 + 12} * * {rng.choice(('sun', 'tue,sat', '1-5'))}",
    )
    if number % 3 == 0:
        return forms[number // 3 % len(forms)]
    return f'cron: "{crons[number % len(crons)]}"'


if __name__ == "__main__":
    main()
