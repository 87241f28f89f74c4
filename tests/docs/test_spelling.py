"""The pages of the documentation are spelled correctly."""

import subprocess
from pathlib import Path

from support.site import ROOT, site_python, staged_pages

WORDS = ROOT / "docs" / "words.txt"
SCRIPT = ROOT / "docs" / "site" / "spelling.py"


def misspelt(*files: Path) -> list[str]:
    command = [site_python(), SCRIPT, WORDS, *files]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert not done.stderr
    return done.stdout.splitlines()


def test_every_word_is_in_a_dictionary(run_folder: Path) -> None:
    """Generated pages count: help texts and the descriptions of the API."""
    found = [line for line in misspelt(*staged_pages(run_folder)) if line]
    assert not found, "\n".join(
        [*found, "Correct these, or add words of the trade to docs/words.txt."]
    )


def test_misspelt_words_are_found_in_prose_only(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "The shceduler's `shcedule` in [fiel.md](fiel.md), for PgBouncer\n\n"
        "```sh\ntenantcron shcedule\n```\n\nand tennants\n",
        encoding="utf-8",
    )
    assert misspelt(page) == [f"{page}:1: shceduler's", f"{page}:7: tennants"]


def test_british_endings_are_correct(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("Organisations recognise colours, and neighbouring behaviour.\n", "utf-8")
    assert misspelt(page) == [""]


def test_the_words_of_the_project_are_sorted_and_unique() -> None:
    words = WORDS.read_text(encoding="utf-8").splitlines()
    assert words == sorted(words, key=lambda word: (word.lower(), word))
    assert len({word.lower() for word in words}) == len(words)
