"""LlamaIndex's vector store for MongoDB with vectors made here: a search index of its own making, search with and without a filter, deletion."""

import importlib.metadata
import sys
import time

from llama_index.core.schema import NodeRelationship, RelatedNodeInfo, TextNode
from llama_index.core.vector_stores.types import MetadataFilter, MetadataFilters, VectorStoreQuery
from llama_index.vector_stores.mongodb import MongoDBAtlasVectorSearch
from pymongo import AsyncMongoClient, MongoClient

LETTERS = "abcdefghijklmnopqrstuvwxyz"


def count_letters(text):
    """A text's vector is how often each letter occurs in it."""
    return [float(text.lower().count(letter)) + 0.01 for letter in LETTERS]


for package in ("llama-index-vector-stores-mongodb", "llama-index-core", "pymongo"):
    print("VERSION", package, importlib.metadata.version(package))
client = MongoClient(sys.argv[1], directConnection=True)
async_client = AsyncMongoClient(sys.argv[1], directConnection=True)
client.drop_database("llama")
client.llama.create_collection("texts")
store = MongoDBAtlasVectorSearch(
    client, async_mongodb_client=async_client, db_name="llama", collection_name="texts", vector_index_name="vectors"
)
store.create_vector_search_index(dimensions=len(LETTERS), path="embedding", similarity="cosine", filters=["metadata.kind"], wait_until_complete=60)
texts = {"zebra zoo": "animal", "queen quartz": "stone", "jazz jam": "sound", "buzzing bees": "animal"}
nodes = [
    TextNode(
        text=text,
        metadata={"kind": kind},
        embedding=count_letters(text),
        relationships={NodeRelationship.SOURCE: RelatedNodeInfo(node_id=f"document of {text}")},
    )
    for text, kind in texts.items()
]
assert len(store.add(nodes)) == 4


def search(text, count, filters=None):
    found = store.query(VectorStoreQuery(query_embedding=count_letters(text), similarity_top_k=count, filters=filters))
    return [node.get_content() for node in found.nodes]


end = time.monotonic() + 60
while len(search("zebra", 4)) != 4:
    assert time.monotonic() < end, search("zebra", 4)
    time.sleep(0.2)
assert search("quartz queen", 1) == ["queen quartz"]
animals = MetadataFilters(filters=[MetadataFilter(key="kind", value="animal")])
assert set(search("jazz", 4, animals)) == {"zebra zoo", "buzzing bees"}
store.delete("document of zebra zoo")
while "zebra zoo" in search("zebra zoo", 4):
    assert time.monotonic() < end, "a deleted node is found"
    time.sleep(0.2)
client.drop_database("llama")
