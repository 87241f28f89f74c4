"""How long a signing key is published before it signs."""

from datetime import timedelta
from typing import Final

LEAD: Final = timedelta(minutes=15)
LONGEST_LEAD: Final = timedelta(days=7)
