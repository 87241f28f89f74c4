"""Metrics as Prometheus sees them."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from http.client import HTTPConnection
from time import monotonic, sleep

from prometheus_client.metrics_core import Metric as Family
from prometheus_client.parser import text_string_to_metric_families
from support.patience import PATIENCE


@dataclass(frozen=True, slots=True)
class Scraped:
    """The result of a scrape, as families and by sample name."""

    families: dict[str, Family]
    samples: dict[tuple[str, tuple[tuple[str, str], ...]], float] = field(default_factory=dict)

    def value(self, name: str, **labels: str) -> float | None:
        """Return a sample; None if it does not exist."""
        return self.samples.get((f"tenantcron_{name}", tuple(sorted(labels.items()))))

    def values(self, name: str, label: str) -> dict[str, float]:
        """Return all samples of a name by their only label."""
        found = self.samples.items()
        return {
            dict(labels)[label]: value
            for (sample, labels), value in found
            if sample == f"tenantcron_{name}"
        }

    @property
    def names(self) -> set[str]:
        """The names under which the metrics are queried."""
        return {
            f"{family.name}_total" if family.type == "counter" else family.name
            for family in self.families.values()
        }


def read(text: str) -> Scraped:
    """Read the text format."""
    families = {family.name: family for family in text_string_to_metric_families(text)}
    return Scraped(families, dict(_samples(families)))


def _samples(
    families: dict[str, Family],
) -> Iterator[tuple[tuple[str, tuple[tuple[str, str], ...]], float]]:
    for family in families.values():
        for sample in family.samples:
            yield (sample.name, tuple(sorted(sample.labels.items()))), sample.value


def get(port: int, path: str, method: str = "GET") -> tuple[int, str, str]:
    """Request a path; return the status, the content type and the text."""
    connection = HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    try:
        connection.request(method, path)
        answer = connection.getresponse()
        return answer.status, answer.headers["Content-Type"], answer.read().decode()
    finally:
        connection.close()


def until_served(port: int, path: str = "/readyz") -> None:
    """Wait until a path is served."""
    patience = monotonic() + PATIENCE
    while monotonic() < patience:
        try:
            if get(port, path)[0] == 200:
                return
        except OSError:
            pass
        sleep(0.05)
    raise AssertionError(f"{path} is not served")
