"""Fixtures for pytest: `quarry_server`, one server for the whole run, and `quarry_uri`, its connection string."""

import pytest

from . import Server


@pytest.fixture(scope="session")
def quarry_server():
    with Server() as server:
        yield server


@pytest.fixture(scope="session")
def quarry_uri(quarry_server):
    return quarry_server.uri
