"""Which values of a test's table run by default, and which only with the long tests."""

from collections.abc import Container, Iterable
from typing import Any

import pytest


def by_default(kept: Container[Any], values: Iterable[Any]) -> list[Any]:
    """Return test parameters, those that are not kept marked `slow`."""
    return [pytest.param(value, marks=slow_unless(kept, value)) for value in values]


def slow_unless(kept: Container[Any], value: Any) -> list[pytest.MarkDecorator]:
    """Return the marks of tests on a value of a table."""
    return [] if value in kept else [pytest.mark.slow]
