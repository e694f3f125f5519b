/* The server's adapter for WiredTiger, compiled on the user's machine against the user's
   wiredtiger.h. */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <wiredtiger.h>

#include "adapter.h"

#define TABLES_MAX 16

struct qw_engine {
    WT_EVENT_HANDLER handler; /* First, because WiredTiger passes its address back. */
    WT_CONNECTION *connection;
    pthread_mutex_t lock;
    int tables;
    char uris[TABLES_MAX][64];
    char said[512]; /* The newest line of any thread, including the library's own. */
};

struct qw_session {
    qw_engine *engine;
    WT_SESSION *session;
    WT_CURSOR *cursors[TABLES_MAX]; /* Opened when first used. */
};

/* The first lines that the library has reported to this thread since the last successful call: the
   cause of a failure comes first, and its consequences follow. */
static __thread struct {
    char lines[QW_SAID_BYTES];
    size_t length;
} heard;

static void forget_heard(void) {
    heard.length = 0;
    heard.lines[0] = 0;
}

/* A line that does not fit is dropped. */
static void hear(const char *line) {
    size_t length = strlen(line), separator = heard.length > 0;
    if (heard.length == 0 && length >= sizeof heard.lines)
        length = sizeof heard.lines - 1;
    if (heard.length + separator + length >= sizeof heard.lines)
        return;
    if (separator)
        heard.lines[heard.length++] = '\n';
    memcpy(heard.lines + heard.length, line, length);
    heard.length += length;
    heard.lines[heard.length] = 0;
}

/* The result of every call. After a failed call the lines stay available for `qw_said`. */
static int sorted(int status) {
    switch (status) {
    case WT_ROLLBACK:
#ifdef WT_CACHE_FULL
    case WT_CACHE_FULL:
#endif
    case QW_AGAIN:
        status = QW_AGAIN;
        break;
#ifdef WT_TRY_SALVAGE
    case WT_TRY_SALVAGE:
        return QW_DAMAGED;
#endif
    case 0:
        break;
    default:
        return status;
    }
    forget_heard();
    return status;
}

/* Stores the engine's text; the number that a call returns says which kind of error it is. */
static int handle_error(
    WT_EVENT_HANDLER *handler, WT_SESSION *session, int status, const char *message) {
    qw_engine *engine = (qw_engine *)handler;
    (void)session;
    (void)status;
    hear(message);
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

void qw_said(qw_engine *engine, char *error, size_t error_length) {
    pthread_mutex_lock(&engine->lock);
    snprintf(error, error_length, "%s", heard.length > 0 ? heard.lines : engine->said);
    pthread_mutex_unlock(&engine->lock);
    forget_heard();
}

/* Opens a table: ENOENT when it has no file. *filled is set when it has a row. */
static int look_at_table(WT_SESSION *session, const char *uri, int *filled) {
    WT_CURSOR *cursor = NULL;
    int status = session->open_cursor(session, uri, NULL, NULL, &cursor);
    if (status != 0)
        return status;
    if (filled != NULL) {
        status = cursor->next(cursor);
        *filled |= status == 0;
        if (status == WT_NOTFOUND)
            status = 0;
    }
    cursor->close(cursor);
    return status;
}

/* When a failed call ends the first opening, WiredTiger may know a table whose file was not made.
   Such a table is made anew if no table has a row: nothing was stored. Otherwise its file was lost,
   and the directory is damaged. */
static int make_missing_files(qw_engine *engine, WT_SESSION *session, const char *const *tables) {
    int missing[TABLES_MAX] = {0}, any = 0, filled = 0, status, i;
    for (i = 0; i < engine->tables; i++) {
        status = look_at_table(session, engine->uris[i], NULL);
        missing[i] = status == ENOENT;
        any |= missing[i];
        if (status != 0 && !missing[i])
            return status;
    }
    if (!any)
        return 0;
    for (i = 0; i < engine->tables; i++) {
        status = missing[i] ? 0 : look_at_table(session, engine->uris[i], &filled);
        if (status != 0)
            return status;
    }
    if (filled)
        return QW_DAMAGED;
    for (i = 0; i < engine->tables; i++) {
        status = missing[i] ? session->drop(session, engine->uris[i], "force=true") : 0;
        if (status == 0 && missing[i])
            status = session->create(session, engine->uris[i], tables[2 * i + 1]);
        if (status != 0)
            return status;
    }
    return 0;
}

static int make_tables(qw_engine *engine, const char *const *tables, int read_only) {
    const char *const *all = tables;
    WT_SESSION *session = NULL;
    int status = engine->connection->open_session(engine->connection, NULL, NULL, &session);
    for (; status == 0 && tables[0] != NULL; tables += 2) {
        if (engine->tables == TABLES_MAX) {
            status = QW_NO_MEMORY;
            break;
        }
        // A file, not WiredTiger's "table" over it: creating that writes three rows of its
        // metadata, each in its own commit, and after a crash between them the table exists and
        // cannot be opened.
        snprintf(engine->uris[engine->tables], sizeof engine->uris[0], "file:%s.wt", tables[0]);
        if (!read_only)
            status = session->create(session, engine->uris[engine->tables], tables[1]);
        engine->tables++;
    }
    if (status == 0 && !read_only)
        status = make_missing_files(engine, session, all);
    if (session != NULL)
        session->close(session, NULL);
    return status;
}

int qw_open(const char *directory, const char *connection, const char *const *tables, int read_only,
    qw_engine **out, char *error, size_t error_length) {
    qw_engine *engine = calloc(1, sizeof *engine);
    int status;
    if (engine == NULL)
        return QW_NO_MEMORY;
    pthread_mutex_init(&engine->lock, NULL);
    forget_heard();
    engine->handler.handle_error = handle_error;
    engine->handler.handle_message = handle_message;
    status = wiredtiger_open(directory, &engine->handler, connection, &engine->connection);
    if (status == 0)
        status = make_tables(engine, tables, read_only);
    if (status != 0) {
        qw_said(engine, error, error_length);
        if (engine->connection != NULL)
            engine->connection->close(engine->connection, NULL);
        forget_heard();
        pthread_mutex_destroy(&engine->lock);
        free(engine);
        return sorted(status);
    }
    *out = engine;
    return sorted(0);
}

int qw_close(qw_engine *engine) {
    int status = engine->connection->close(engine->connection, NULL);
    pthread_mutex_destroy(&engine->lock);
    free(engine);
    return sorted(status);
}

const char *qw_version(void) {
    return wiredtiger_version(NULL, NULL, NULL);
}

const char *qw_text(int status) {
    return wiredtiger_strerror(status);
}

int qw_session_open(qw_engine *engine, qw_session **out) {
    qw_session *session = calloc(1, sizeof *session);
    int status;
    if (session == NULL)
        return QW_NO_MEMORY;
    session->engine = engine;
    status = engine->connection->open_session(engine->connection, NULL, NULL, &session->session);
    if (status != 0) {
        free(session);
        return sorted(status);
    }
    *out = session;
    return sorted(0);
}

void qw_session_close(qw_session *session) {
    session->session->close(session->session, NULL);
    forget_heard();
    free(session);
}

int qw_begin(qw_session *session) {
    return sorted(session->session->begin_transaction(session->session, "isolation=snapshot"));
}

int qw_commit(qw_session *session) {
    return sorted(session->session->commit_transaction(session->session, NULL));
}

void qw_rollback(qw_session *session) {
    session->session->rollback_transaction(session->session, NULL);
    forget_heard();
}

static int cursor_of(qw_session *session, int table, WT_CURSOR **out) {
    int status = 0;
    if (session->cursors[table] == NULL)
        status = session->session->open_cursor(
            session->session, session->engine->uris[table], NULL, NULL, &session->cursors[table]);
    *out = session->cursors[table];
    return status;
}

static void set_key(WT_CURSOR *cursor, const void *key, size_t length) {
    WT_ITEM item;
    memset(&item, 0, sizeof item);
    item.data = key;
    item.size = length;
    cursor->set_key(cursor, &item);
}

int qw_put(qw_session *session, int table, const void *key, size_t key_length, const void *value,
    size_t value_length) {
    WT_CURSOR *cursor;
    WT_ITEM item;
    int status = cursor_of(session, table, &cursor);
    if (status != 0)
        return sorted(status);
    memset(&item, 0, sizeof item);
    item.data = value;
    item.size = value_length;
    set_key(cursor, key, key_length);
    cursor->set_value(cursor, &item);
    status = cursor->insert(cursor);
    cursor->reset(cursor);
    return sorted(status);
}

int qw_delete(qw_session *session, int table, const void *key, size_t key_length) {
    WT_CURSOR *cursor;
    int status = cursor_of(session, table, &cursor);
    if (status != 0)
        return sorted(status);
    set_key(cursor, key, key_length);
    status = cursor->remove(cursor);
    cursor->reset(cursor);
    return sorted(status == WT_NOTFOUND ? 0 : status);
}

/* Compares keys bytewise; a prefix comes before a longer key. */
static int order(const WT_ITEM *a, const void *b, size_t b_length) {
    int by_bytes = memcmp(a->data, b, a->size < b_length ? a->size : b_length);
    return by_bytes != 0 ? by_bytes : (a->size > b_length) - (a->size < b_length);
}

/* Moves to the first key not below `from`, or to the last one below `end`. */
static int start(WT_CURSOR *cursor, const void *from, size_t from_length, const void *end,
    size_t end_length, int reverse) {
    int exact = 0, status;
    /* An empty key cannot be searched for; an unpositioned cursor moves to the first key. */
    if (!reverse && from_length == 0)
        return cursor->next(cursor);
    set_key(cursor, reverse ? end : from, reverse ? end_length : from_length);
    status = cursor->search_near(cursor, &exact);
    if (status == 0 && !reverse && exact < 0)
        status = cursor->next(cursor);
    if (status == 0 && reverse && exact >= 0)
        status = cursor->prev(cursor);
    return status;
}

int qw_delete_range(qw_session *session, int table, const void *from, size_t from_length,
    const void *end, size_t end_length) {
    WT_CURSOR *first = NULL, *last = NULL;
    WT_SESSION *s = session->session;
    const char *uri = session->engine->uris[table];
    WT_ITEM key, to;
    int status = s->open_cursor(s, uri, NULL, NULL, &first);
    if (status == 0)
        status = s->open_cursor(s, uri, NULL, NULL, &last);
    if (status == 0)
        status = start(first, from, from_length, end, end_length, 0);
    if (status == 0)
        status = start(last, from, from_length, end, end_length, 1);
    if (status == 0)
        status = first->get_key(first, &key);
    if (status == 0)
        status = last->get_key(last, &to);
    /* Both cursors are on keys; if no key is inside the bounds, the first is after the last. */
    if (status == 0 && order(&key, to.data, to.size) <= 0)
        status = s->truncate(s, NULL, first, last, NULL);
    if (first != NULL)
        first->close(first);
    if (last != NULL)
        last->close(last);
    return sorted(status == WT_NOTFOUND ? 0 : status);
}

/* Passes the row at the cursor to the visitor; `*goes_on` is its result. */
static int see(WT_CURSOR *cursor, qw_visit visit, void *with, int *goes_on) {
    WT_ITEM key, value;
    int status = cursor->get_key(cursor, &key);
    if (status == 0)
        status = cursor->get_value(cursor, &value);
    if (status == 0)
        *goes_on = visit(with, key.data, key.size, value.data, value.size);
    return status;
}

int qw_get(qw_session *session, int table, const void *key, size_t key_length, qw_visit visit,
    void *with) {
    WT_CURSOR *cursor;
    int goes_on = 1, status = cursor_of(session, table, &cursor);
    if (status != 0)
        return sorted(status);
    set_key(cursor, key, key_length);
    status = cursor->search(cursor);
    if (status == 0)
        status = see(cursor, visit, with, &goes_on);
    cursor->reset(cursor);
    return sorted(status == WT_NOTFOUND ? 0 : status);
}

int qw_scan(qw_session *session, int table, const void *from, size_t from_length, const void *end,
    size_t end_length, int reverse, qw_visit visit, void *with) {
    WT_CURSOR *cursor;
    int goes_on = 1, status = cursor_of(session, table, &cursor);
    if (status != 0)
        return sorted(status);
    status = start(cursor, from, from_length, end, end_length, reverse);
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
    return sorted(status == WT_NOTFOUND ? 0 : status);
}

int qw_flush(qw_session *session) {
    return sorted(session->session->log_flush(session->session, "sync=on"));
}

int qw_checkpoint(qw_session *session) {
    return sorted(session->session->checkpoint(session->session, NULL));
}

int qw_compact(qw_session *session, int table, int seconds) {
    char config[32];
    int status;
    snprintf(config, sizeof config, "timeout=%d", seconds);
    status =
        session->session->compact(session->session, session->engine->uris[table], config);
    return sorted(status == EBUSY || status == ETIMEDOUT ? QW_AGAIN : status);
}

int qw_statistics(qw_session *session, int table, qw_emit emit, void *with) {
    WT_CURSOR *cursor = NULL;
    char uri[96];
    int status;
    snprintf(uri, sizeof uri, "statistics:%s", table < 0 ? "" : session->engine->uris[table]);
    status = session->session->open_cursor(
        session->session, uri, NULL, table < 0 ? NULL : "statistics=(fast)", &cursor);
    if (status != 0)
        return sorted(status);
    while ((status = cursor->next(cursor)) == 0) {
        const char *name, *printed;
        int64_t value;
        status = cursor->get_value(cursor, &name, &printed, &value);
        if (status != 0)
            break;
        emit(with, name, value);
    }
    cursor->close(cursor);
    return sorted(status == WT_NOTFOUND ? 0 : status);
}

int qw_backup(qw_session *session, qw_emit emit, void *with) {
    WT_CURSOR *cursor = NULL;
    int status =
        session->session->open_cursor(session->session, "backup:", NULL, NULL, &cursor);
    if (status != 0)
        return sorted(status);
    while ((status = cursor->next(cursor)) == 0) {
        const char *name;
        status = cursor->get_key(cursor, &name);
        if (status != 0)
            break;
        emit(with, name, 0);
    }
    if (status == WT_NOTFOUND)
        emit(with, "", 0);
    cursor->close(cursor);
    return sorted(status == WT_NOTFOUND ? 0 : status);
}
