"""LangChain's vector store for MongoDB with vectors made here: a search index of its own making, search with and without a filter, deletion."""

import importlib.metadata
import sys
import time

from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_mongodb import MongoDBAtlasVectorSearch
from pymongo import MongoClient

LETTERS = "abcdefghijklmnopqrstuvwxyz"


class LetterCounts(Embeddings):
    """A text's vector is how often each letter occurs in it."""

    def embed_query(self, text):
        return [float(text.lower().count(letter)) + 0.01 for letter in LETTERS]

    def embed_documents(self, texts):
        return [self.embed_query(text) for text in texts]


def wait_for(found, wanted, seconds=60):
    end = time.monotonic() + seconds
    while (seen := found()) != wanted:
        assert time.monotonic() < end, f"{seen!r} is not {wanted!r}"
        time.sleep(0.2)


for package in ("langchain-mongodb", "pymongo"):
    print("VERSION", package, importlib.metadata.version(package))
client = MongoClient(sys.argv[1], directConnection=True)
client.drop_database("langchain")
collection = client.langchain.create_collection("texts")
store = MongoDBAtlasVectorSearch(collection, LetterCounts(), index_name="vectors", relevance_score_fn="cosine", auto_create_index=False)
store.create_vector_search_index(dimensions=len(LETTERS), filters=["kind"], wait_until_complete=60)
texts = {"zebra zoo": "animal", "queen quartz": "stone", "jazz jam": "sound", "buzzing bees": "animal"}
ids = store.add_documents([Document(page_content=text, metadata={"kind": kind}) for text, kind in texts.items()])
assert len(ids) == 4, ids


def search(text, count, **options):
    return [found.page_content for found in store.similarity_search(text, k=count, **options)]


wait_for(lambda: len(search("zebra", 4)), 4)
assert search("quartz queen", 1) == ["queen quartz"]
assert search("jazz jam", 2, pre_filter={"kind": {"$eq": "animal"}})[0] in ("zebra zoo", "buzzing bees")
assert set(search("jazz", 4, pre_filter={"kind": "animal"})) == {"zebra zoo", "buzzing bees"}
scored = store.similarity_search_with_score("zebra zoo", k=4)
assert scored[0][0].page_content == "zebra zoo" and abs(scored[0][1] - 1) < 1e-5, scored
assert [score for _, score in scored] == sorted((score for _, score in scored), reverse=True)
assert len(store.max_marginal_relevance_search("zebra", k=2, fetch_k=4)) == 2
assert store.delete(ids[:1])
wait_for(lambda: "zebra zoo" in search("zebra zoo", 4), False)
client.drop_database("langchain")
