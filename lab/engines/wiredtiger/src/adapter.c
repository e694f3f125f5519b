/* The lab's adapter for WiredTiger, compiled on the user's machine against the user's
   wiredtiger.h. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <wiredtiger.h>

#include "adapter.h"

#define TABLE "table:rows"

struct lab_engine {
    WT_EVENT_HANDLER handler; /* First: WiredTiger hands its address back. */
    WT_CONNECTION *connection;
    pthread_mutex_t lock;
    char said[512];
};

struct lab_session {
    WT_SESSION *session;
    WT_CURSOR *cursor;
    WT_CURSOR *change; /* Writes without having looked first. */
};

static int again(int status) {
    return status == WT_ROLLBACK ? LAB_AGAIN : status;
}

/* Keeps the engine's message in case the open fails; later errors have only a number. */
static int handle_error(
    WT_EVENT_HANDLER *handler, WT_SESSION *session, int status, const char *message) {
    struct lab_engine *engine = (struct lab_engine *)handler;
    (void)session;
    (void)status;
    pthread_mutex_lock(&engine->lock);
    snprintf(engine->said, sizeof engine->said, "%s", message);
    pthread_mutex_unlock(&engine->lock);
    return 0;
}

static int handle_message(WT_EVENT_HANDLER *handler, WT_SESSION *session, const char *message) {
    (void)handler;
    (void)session;
    (void)message;
    return 0;
}

static const char *option(const char *const *options, const char *name) {
    for (; options[0] != NULL; options += 2)
        if (strcmp(options[0], name) == 0)
            return options[1];
    return "";
}

int lab_open(const char *directory, const char *const *options, lab_engine **out, char *error,
    size_t error_length) {
    struct lab_engine *engine = calloc(1, sizeof *engine);
    WT_SESSION *session = NULL;
    int status;
    if (engine == NULL)
        return LAB_NO_MEMORY;
    pthread_mutex_init(&engine->lock, NULL);
    engine->handler.handle_error = handle_error;
    engine->handler.handle_message = handle_message;
    status = wiredtiger_open(
        directory, &engine->handler, option(options, "connection"), &engine->connection);
    if (status == 0)
        status = engine->connection->open_session(engine->connection, NULL, NULL, &session);
    if (status == 0)
        status = session->create(session, TABLE, option(options, "table"));
    if (session != NULL)
        session->close(session, NULL);
    if (status != 0) {
        snprintf(error, error_length, "%s", engine->said);
        if (engine->connection != NULL)
            engine->connection->close(engine->connection, NULL);
        pthread_mutex_destroy(&engine->lock);
        free(engine);
        return status;
    }
    *out = engine;
    return 0;
}

int lab_close(lab_engine *engine) {
    int status = engine->connection->close(engine->connection, NULL);
    pthread_mutex_destroy(&engine->lock);
    free(engine);
    return status;
}

const char *lab_version(void) {
    static char text[32];
    int major, minor, patch;
    (void)wiredtiger_version(&major, &minor, &patch);
    snprintf(text, sizeof text, "%d.%d.%d", major, minor, patch);
    return text;
}

const char *lab_text(int status) {
    return wiredtiger_strerror(status);
}

void lab_session_close(lab_session *session) {
    if (session->session != NULL)
        session->session->close(session->session, NULL);
    free(session);
}

int lab_session_open(lab_engine *engine, lab_session **out) {
    struct lab_session *session = calloc(1, sizeof *session);
    int status;
    if (session == NULL)
        return LAB_NO_MEMORY;
    status = engine->connection->open_session(engine->connection, NULL, NULL, &session->session);
    if (status == 0)
        status =
            session->session->open_cursor(session->session, TABLE, NULL, NULL, &session->cursor);
    if (status == 0)
        status = session->session->open_cursor(
            session->session, TABLE, NULL, "overwrite=true", &session->change);
    if (status != 0) {
        lab_session_close(session);
        return status;
    }
    *out = session;
    return 0;
}

int lab_begin(lab_session *session) {
    return again(session->session->begin_transaction(session->session, "isolation=snapshot"));
}

static void key_of(WT_CURSOR *cursor, const void *key, size_t length) {
    WT_ITEM item;
    memset(&item, 0, sizeof item);
    item.data = key;
    item.size = length;
    cursor->set_key(cursor, &item);
}

int lab_put(lab_session *session, const void *key, size_t key_length, const void *value,
    size_t value_length) {
    WT_ITEM item;
    memset(&item, 0, sizeof item);
    item.data = value;
    item.size = value_length;
    key_of(session->change, key, key_length);
    session->change->set_value(session->change, &item);
    return again(session->change->insert(session->change));
}

int lab_delete(lab_session *session, const void *key, size_t key_length) {
    int status;
    key_of(session->change, key, key_length);
    status = session->change->remove(session->change);
    return status == WT_NOTFOUND ? 0 : again(status);
}

int lab_commit(lab_session *session, int sync) {
    session->change->reset(session->change);
    return again(session->session->commit_transaction(session->session, sync ? "sync=on" : NULL));
}

void lab_rollback(lab_session *session) {
    session->change->reset(session->change);
    session->session->rollback_transaction(session->session, NULL);
}

/* Passes the row at the cursor to the visitor; `*goes_on` gets the visitor's return value. */
static int see(WT_CURSOR *cursor, lab_visit visit, void *with, int *goes_on) {
    WT_ITEM key, value;
    int status = cursor->get_key(cursor, &key);
    if (status == 0)
        status = cursor->get_value(cursor, &value);
    if (status == 0)
        *goes_on = visit(with, key.data, key.size, value.data, value.size);
    return status;
}

int lab_get(lab_session *session, const void *key, size_t key_length, lab_visit visit, void *with) {
    WT_CURSOR *cursor = session->cursor;
    int goes_on = 1, status;
    key_of(cursor, key, key_length);
    status = cursor->search(cursor);
    if (status == 0)
        status = see(cursor, visit, with, &goes_on);
    cursor->reset(cursor);
    return status == WT_NOTFOUND ? 0 : again(status);
}

/* Compares bytes; a prefix sorts before a longer key. */
static int order(const WT_ITEM *a, const void *b, size_t b_length) {
    int by_bytes = memcmp(a->data, b, a->size < b_length ? a->size : b_length);
    return by_bytes != 0 ? by_bytes : (a->size > b_length) - (a->size < b_length);
}

/* Finds the first key of the scan: the first one not below `from`, or the last one below `end`. */
static int start(WT_CURSOR *cursor, const void *from, size_t from_length, const void *end,
    size_t end_length, int reverse) {
    int exact = 0, status;
    /* The engine cannot search for an empty key; an unpositioned cursor moves to the first key. */
    if (!reverse && from_length == 0)
        return cursor->next(cursor);
    key_of(cursor, reverse ? end : from, reverse ? end_length : from_length);
    status = cursor->search_near(cursor, &exact);
    if (status == 0 && !reverse && exact < 0)
        status = cursor->next(cursor);
    if (status == 0 && reverse && exact >= 0)
        status = cursor->prev(cursor);
    return status;
}

int lab_scan(lab_session *session, const void *from, size_t from_length, const void *end,
    size_t end_length, int reverse, lab_visit visit, void *with) {
    WT_CURSOR *cursor = session->cursor;
    int goes_on = 1;
    int status = start(cursor, from, from_length, end, end_length, reverse);
    while (status == 0) {
        WT_ITEM key;
        status = cursor->get_key(cursor, &key);
        if (status != 0 ||
            (reverse ? order(&key, from, from_length) < 0 : order(&key, end, end_length) >= 0))
            break;
        status = see(cursor, visit, with, &goes_on);
        if (status != 0 || !goes_on)
            break;
        status = reverse ? cursor->prev(cursor) : cursor->next(cursor);
    }
    cursor->reset(cursor);
    return status == WT_NOTFOUND ? 0 : again(status);
}

int lab_flush(lab_session *session) {
    return session->session->log_flush(session->session, "sync=on");
}

int lab_checkpoint(lab_session *session) {
    return session->session->checkpoint(session->session, NULL);
}

int lab_statistics(lab_session *session, lab_emit emit, void *with) {
    WT_CURSOR *cursor = NULL;
    int status =
        session->session->open_cursor(session->session, "statistics:", NULL, NULL, &cursor);
    if (status != 0)
        return status;
    while ((status = cursor->next(cursor)) == 0) {
        const char *name, *printed;
        int64_t value;
        status = cursor->get_value(cursor, &name, &printed, &value);
        if (status != 0)
            break;
        emit(with, name, (double)value);
    }
    cursor->close(cursor);
    return status == WT_NOTFOUND ? 0 : status;
}
