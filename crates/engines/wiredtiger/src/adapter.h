/* The flat interface between the server and its adapter for WiredTiger. The adapter is compiled
 * against the user's own header; what the server calls never changes. Every function returns 0 or a
 * number that qw_text explains. A session is used by one thread at a time. */
#ifndef QW_ADAPTER_H
#define QW_ADAPTER_H

#include <stddef.h>
#include <stdint.h>

/* The transaction conflicted: it must be rolled back and may be tried again. */
#define QW_AGAIN 1000001
/* The adapter could not allocate memory. */
#define QW_NO_MEMORY 1000002
/* A damaged file. */
#define QW_DAMAGED 1000003
/* Size of the buffer for the lines about one failed call; further lines are dropped. */
#define QW_SAID_BYTES 1024

typedef struct qw_engine qw_engine;
typedef struct qw_session qw_session;
/* Called with a key and its value; returns 0 to end the walk. */
typedef int (*qw_visit)(
    void *with, const void *key, size_t key_length, const void *value, size_t value_length);
/* Called with a statistic or a name. */
typedef void (*qw_emit)(void *with, const char *name, int64_t value);

/* `tables` has names and configurations alternately and ends with a null pointer; missing tables
 * are created, unless `read_only`. After a failure `error` may say more than the number. */
int qw_open(const char *directory, const char *connection, const char *const *tables, int read_only,
    qw_engine **out, char *error, size_t error_length);
/* All sessions must be closed. */
int qw_close(qw_engine *engine);
/* Returns the first lines that the engine has reported about the last failed call of this thread
 * (the cause comes first), or its newest line of any thread if it reported nothing here. Each line
 * is returned once. */
void qw_said(qw_engine *engine, char *error, size_t error_length);
const char *qw_version(void);
const char *qw_text(int status);
int qw_session_open(qw_engine *engine, qw_session **out);
void qw_session_close(qw_session *session);
/* Begins a transaction: until its end the session sees one fixed state. */
int qw_begin(qw_session *session);
/* The transaction is over, whatever this returns. */
int qw_commit(qw_session *session);
void qw_rollback(qw_session *session);
int qw_put(qw_session *session, int table, const void *key, size_t key_length, const void *value,
    size_t value_length);
/* A missing key is no error. */
int qw_delete(qw_session *session, int table, const void *key, size_t key_length);
/* Removes keys in from..end. */
int qw_delete_range(qw_session *session, int table, const void *from, size_t from_length,
    const void *end, size_t end_length);
/* Calls `visit` once if there is such a key. */
int qw_get(qw_session *session, int table, const void *key, size_t key_length, qw_visit visit,
    void *with);
/* Visits keys in from..end in order, or in reverse order from the last. */
int qw_scan(qw_session *session, int table, const void *from, size_t from_length, const void *end,
    size_t end_length, int reverse, qw_visit visit, void *with);
/* Flushes the log to the device. */
int qw_flush(qw_session *session);
/* Writes all data to the device. */
int qw_checkpoint(qw_session *session);
/* Moves rows from the end of a table's file into unused space before them, and shortens the file.
 * QW_AGAIN when it is not finished after `seconds`, or the cache is too full to continue. */
int qw_compact(qw_session *session, int table, int seconds);
/* A `table` below 0 stands for the whole engine. */
int qw_statistics(qw_session *session, int table, qw_emit emit, void *with);
/* Calls `emit` with the files of a copy, and then with an empty name: the files do not change until
 * that last call returns. */
int qw_backup(qw_session *session, qw_emit emit, void *with);

#endif
