"""The wheel as a test would use it."""

import os

import pymongo
import pytest
from quarry_server import Server


def test_the_fixture_serves(quarry_uri):
    with pymongo.MongoClient(quarry_uri) as client:
        client.test.things.insert_one({"_id": 1, "n": 2})
        assert client.test.things.find_one({"n": 2}) == {"_id": 1, "n": 2}


def test_a_folder_of_its_own_is_gone_and_one_that_was_given_stays(tmp_path):
    with Server() as server:
        scratch = server.process.args[server.process.args.index("--dbpath") + 1]
        assert os.path.exists(scratch)
    assert not os.path.exists(scratch)
    for expected in (0, 1):
        with Server(dbpath=tmp_path) as server, pymongo.MongoClient(server.uri) as client:
            assert client.test.things.count_documents({}) == expected
            client.test.things.insert_one({})


def test_what_is_wrong_is_said():
    with pytest.raises(RuntimeError, match="noSuchOption"):
        Server(args=["--noSuchOption"])
