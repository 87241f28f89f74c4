"""Handlers that only some schedulers have, as in a rolling deploy with a new saga."""

from faults.sagas import work
from faults.workload import REPORTS
from tenantcron.targets.python.registry import saga

for _name in REPORTS:
    saga(_name)(work)
