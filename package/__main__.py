"""The entry point of `tenantcron` and `python -m tenantcron`."""

import sys

from tenantcron.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
