"""Show an execution that a Celery worker runs: `make demo CELERY=1`.

Starts RabbitMQ, the API, a scheduler and a Celery worker on loopback, with their files in the
working directory, triggers the schedule, and shows its progress and its end. Then it stops them.
"""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
SCHEDULE = "acme/generate_invoices"
# The script for ordinary users; the one in the path changes to the user of the system's server.
RABBITMQ = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")
PATIENCE = 120.0


def main() -> int:
    """Run the demonstration; without RabbitMQ, print how to install it."""
    names = shutil.which("epmd")
    if names is None or not RABBITMQ.exists():
        print("RabbitMQ is not installed: apt-get install rabbitmq-server", file=sys.stderr)
        return 1
    for file in ("acme.yaml", "tenantcron.toml"):
        shutil.copy(HERE / file, file)
    api, broker = free_port(), free_port()
    variables = {
        "CELERY_BROKER": f"amqp://guest:guest@127.0.0.1:{broker}//",
        "TENANTCRON_CALLBACK_URL": f"http://127.0.0.1:{api}",
        "TENANTCRON_MASTER_KEY": os.urandom(32).hex(),
        "PYTHONPATH": str(HERE),
    }
    worker = ("-A", "billing", "worker", "-Q", "billing", "--pool", "threads", "--loglevel", "INFO")
    with ExitStack() as stack:
        start_rabbitmq(stack, names, broker)
        run("apply-manifest", "acme.yaml", "--create-tenants", variables=variables)
        start = started_in(stack, variables)
        start("tenantcron", "serve", "--port", str(api))
        wait_for(lambda: accepts(api), "the API")
        start("tenantcron", "run", "--targets", "celery")
        start("celery", *worker, "--prefetch-multiplier", "1")
        wait_for(lambda: "scheduler_started" in log("tenantcron-run"), "the scheduler")
        wait_for(lambda: " ready." in log("celery-worker"), "the Celery worker")
        show(variables)
    return 0


def show(variables: Mapping[str, str]) -> None:
    """Trigger the schedule, and show the execution while it runs and when it has ended."""
    run("schedule", "trigger", SCHEDULE, "--reason", "demonstration", variables=variables)
    wait_for(lambda: execution(variables)["progress"] is not None, "the first heartbeat")
    run("execution", "list", "--state", "RUNNING", variables=variables)
    wait_for(lambda: execution(variables)["state"] == "SUCCEEDED", "the end of the work")
    run("execution", "show", execution(variables)["id"], variables=variables)


def execution(variables: Mapping[str, str]) -> dict[str, Any]:
    """Return the execution that was triggered."""
    command = ("tenantcron", "execution", "list", "--format", "json")
    listed = subprocess.run(  # noqa: S603 -- a fixed command
        command, env=os.environ | variables, check=True, text=True, capture_output=True
    )
    found: list[dict[str, Any]] = json.loads(listed.stdout)["executions"]
    # An occurrence may come due meanwhile.
    return next(row for row in found if row["actor"]["source"] == "manual")


def run(*arguments: str, variables: Mapping[str, str]) -> None:
    """Show a command as a user types it, and run it."""
    print(f"\n$ tenantcron {' '.join(arguments)}", flush=True)
    command = ("tenantcron", *arguments)
    subprocess.run(command, env=os.environ | variables, check=True)  # noqa: S603 -- our own


def started_in(stack: ExitStack, variables: Mapping[str, str]) -> Callable[..., None]:
    """Return how to start a process whose log is a file."""

    def start(*command: str) -> None:
        file = Path(f"{command[0]}-{'worker' if command[0] == 'celery' else command[1]}.log")
        print(f"\n$ {' '.join(command)} &    # log: {file}", flush=True)
        stack.enter_context(running(command, variables, file))

    return start


def log(name: str) -> str:
    """Return the log of a process."""
    return Path(f"{name}.log").read_text(encoding="utf-8")


@contextmanager
def running(command: Sequence[str], variables: Mapping[str, str], log: Path) -> Iterator[None]:
    """Run a process during the block, and stop it and its children at the end."""
    with log.open("wb") as output:
        process = subprocess.Popen(  # noqa: S603 -- our own
            command,
            env=os.environ | variables,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            yield
        finally:
            process.terminate()
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def start_rabbitmq(stack: ExitStack, names: str, port: int) -> None:
    """Start RabbitMQ and its registry of nodes on loopback."""
    folder, registry = Path.cwd() / "rabbitmq", free_port()
    folder.mkdir()
    (folder / "plugins").write_text("[].", encoding="utf-8")
    variables = {
        "HOME": str(folder),
        "ERL_EPMD_PORT": str(registry),
        "ERL_EPMD_ADDRESS": "127.0.0.1",
        "RABBITMQ_NODENAME": f"demo{port}@localhost",
        "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
        "RABBITMQ_NODE_PORT": str(port),
        "RABBITMQ_DIST_PORT": str(free_port()),
        "RABBITMQ_MNESIA_BASE": str(folder / "data"),
        "RABBITMQ_LOG_BASE": str(folder / "log"),
        "RABBITMQ_ENABLED_PLUGINS_FILE": str(folder / "plugins"),
        "RABBITMQ_CONFIG_FILE": str(folder / "none"),
        "RABBITMQ_CONF_ENV_FILE": os.devnull,
    }
    print(f"\n$ rabbitmq-server &    # on port {port}, log: rabbitmq/log", flush=True)
    registering = (names, "-port", str(registry), "-address", "127.0.0.1")
    stack.enter_context(running(registering, variables, folder / "epmd.log"))
    stack.enter_context(running((str(RABBITMQ),), variables, folder / "output.log"))
    wait_for(lambda: accepts(port), "RabbitMQ")


def wait_for(is_true: Callable[[], bool], what: str) -> None:
    """Wait for another process."""
    deadline = time.monotonic() + PATIENCE
    while not is_true():
        if time.monotonic() > deadline:
            raise SystemExit(f"error: waited {PATIENCE:.0f} s for {what}: look at the logs")
        time.sleep(0.2)


def accepts(port: int) -> bool:
    """Whether a server accepts connections."""
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True


def free_port() -> int:
    """Return a port that no process uses."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


if __name__ == "__main__":
    sys.exit(main())
