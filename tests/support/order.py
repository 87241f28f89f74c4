"""The order of the tests: the few slow ones come first.

The first tests are sent to workers in long batches, so those of one file stay together and share
its fixtures. The last ones are sent in pairs, so the workers end at about the same time.
"""

import pytest

# Files and tests that install environments, run schedulers or kill processes for many seconds.
_LONGEST = (
    "test_pre_commit.py",
    "test_short_run.py",
    "test_the_wheel_contains_the_package_and_works_in_a_clean_environment",
    "test_the_sbom_names_every_runtime_dependency",
    "test_killed_at_random_again_and_again",
    "test_the_database_always_agrees_with_the_model",
    "test_a_retry_never_starts_work_of_a_deleted_schedule",
    "test_rolling_upgrade.py",
    "test_demo.py",
    "test_generated_parts_of_a_page_are_current",
    "test_the_commands_in_pipelines_work",
    "test_the_second_signal_ends_it_at_once",
)


def longest_first(item: pytest.Item) -> int:
    """Return the rank of a test among the slowest; all others follow in their order."""
    places = (place for place, name in enumerate(_LONGEST) if name in item.nodeid)
    return next(places, len(_LONGEST))
