"""A class that is not there, or that these tests cannot build, is told before they start."""

import pytest

from core.errors import UserError
from tests.models.built import GUESTS, configuration


def pytest_configure() -> None:
    try:
        for guest in GUESTS:
            configuration(guest)
    except UserError as mistake:
        raise pytest.UsageError(str(mistake)) from None
