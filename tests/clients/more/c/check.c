/* The C driver: a bulk write, a cursor of several batches, an aggregation, a duplicate key, a transaction that is ended both ways. */
#include <mongoc/mongoc.h>
#include <stdio.h>
#include <stdlib.h>

static void check(bool holds, const char *what) {
  if (!holds) {
    fprintf(stderr, "not so: %s\n", what);
    exit(1);
  }
}

static int count(mongoc_cursor_t *cursor) {
  const bson_t *document;
  bson_error_t error;
  int seen = 0;
  while (mongoc_cursor_next(cursor, &document)) seen++;
  check(!mongoc_cursor_error(cursor, &error), error.message);
  mongoc_cursor_destroy(cursor);
  return seen;
}

int main(int argc, char **argv) {
  char uri[256];
  bson_error_t error;
  if (argc != 2) return 2;
  printf("VERSION libmongoc %s\n", mongoc_get_version());
  mongoc_init();
  snprintf(uri, sizeof uri, "mongodb://%s/?replicaSet=rs0", argv[1]);
  mongoc_client_t *client = mongoc_client_new(uri);
  mongoc_collection_t *items = mongoc_client_get_collection(client, "c", "items");
  mongoc_collection_drop(items, NULL);

  mongoc_bulk_operation_t *bulk = mongoc_collection_create_bulk_operation_with_opts(items, NULL);
  for (int i = 0; i < 1000; i++) {
    bson_t *document = BCON_NEW("_id", BCON_INT32(i), "group", BCON_INT32(i % 10), "amount", BCON_DOUBLE(i / 4.0));
    mongoc_bulk_operation_insert(bulk, document);
    bson_destroy(document);
  }
  check(mongoc_bulk_operation_execute(bulk, NULL, &error), error.message);
  mongoc_bulk_operation_destroy(bulk);

  bson_t *filter = BCON_NEW("group", BCON_INT32(3)), *options = BCON_NEW("batchSize", BCON_INT32(7));
  check(count(mongoc_collection_find_with_opts(items, filter, options, NULL)) == 100, "a cursor of several batches");
  bson_t *pipeline = BCON_NEW("pipeline", "[", "{", "$group", "{", "_id", "$group", "sum", "{", "$sum", "$amount", "}", "}", "}", "]");
  check(count(mongoc_collection_aggregate(items, MONGOC_QUERY_NONE, pipeline, NULL, NULL)) == 10, "ten groups");

  bson_t *one = BCON_NEW("_id", BCON_INT32(1));
  check(!mongoc_collection_insert_one(items, one, NULL, NULL, &error) && error.code == 11000, "a duplicate key is refused with 11000");

  mongoc_client_session_t *session = mongoc_client_start_session(client, NULL, &error);
  check(session != NULL, error.message);
  bson_t *within = BCON_NEW("_id", "in transaction"), in_session = BSON_INITIALIZER;
  check(mongoc_client_session_append(session, &in_session, &error), error.message);
  for (int commit = 0; commit < 2; commit++) {
    check(mongoc_client_session_start_transaction(session, NULL, &error), error.message);
    check(mongoc_collection_insert_one(items, within, &in_session, NULL, &error), error.message);
    check(commit ? mongoc_client_session_commit_transaction(session, NULL, &error) : mongoc_client_session_abort_transaction(session, &error), error.message);
    check(count(mongoc_collection_find_with_opts(items, within, NULL, NULL)) == commit, commit ? "seen after the commit" : "not seen after the rollback");
  }
  check(mongoc_collection_drop(items, &error), error.message);
  bson_destroy(filter);
  bson_destroy(options);
  bson_destroy(pipeline);
  bson_destroy(one);
  bson_destroy(within);
  bson_destroy(&in_session);
  mongoc_client_session_destroy(session);
  mongoc_collection_destroy(items);
  mongoc_client_destroy(client);
  mongoc_cleanup();
  return 0;
}
