"""Ctrl-C while the command line is still loaded."""

import sys

import pytest

from tenantcron import __main__ as entry
from tenantcron.cli import main as command_line


class Interrupting:
    """Interrupts the import of the command line."""

    def find_spec(self, name: str, *_: object) -> None:
        """Find nothing, as other finders do for names that they do not know."""
        if name == command_line.__name__:
            raise KeyboardInterrupt


def test_it_ends_the_command_without_a_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delitem(sys.modules, command_line.__name__)
    monkeypatch.setattr(sys, "meta_path", [Interrupting(), *sys.meta_path])
    assert entry.main() == 130
    assert capsys.readouterr().err == ""
