"""The entry point of `tenantcron` and `python -m tenantcron`."""

import sys


def main() -> int:
    """Run the command line; Ctrl-C while it is still loaded ends it as later."""
    try:
        from tenantcron.cli.main import main as run_command  # noqa: PLC0415 -- can be interrupted
    except KeyboardInterrupt:
        return 130
    return run_command()


if __name__ == "__main__":
    sys.exit(main())
