/* The flat interface between the server and its adapter for WiredTiger. The adapter is compiled
 * against the user's own header; what the server calls never changes. Every function returns 0 or a
 * number that qw_text explains. A session is used by one thread at a time. */
#ifndef QW_ADAPTER_H
#define QW_ADAPTER_H

#include <stddef.h>
#include <stdint.h>

/* The transaction lost: it is to be rolled back and may be tried again. */
#define QW_AGAIN 1000001
/* The adapter itself has no memory. */
#define QW_NO_MEMORY 1000002
/* A damaged file. */
#define QW_DAMAGED 1000003
/* Of the lines about one failed call, those that fit into this are kept. */
#define QW_SAID_BYTES 1024

typedef struct qw_engine qw_engine;
typedef struct qw_session qw_session;
/* Sees a key and its value; 0 ends the walk. */
typedef int (*qw_visit)(
    void *with, const void *key, size_t key_length, const void *value, size_t value_length);
/* Takes a statistic or a name. */
typedef void (*qw_emit)(void *with, const char *name, int64_t value);

/* `tables` are name and configuration in turn, ending with a null pointer; they are made when they
 * are not there, unless `read_only`. After a failure `error` may say more than the number. */
int qw_open(const char *directory, const char *connection, const char *const *tables, int read_only,
    qw_engine **out, char *error, size_t error_length);
/* No session may be open. */
int qw_close(qw_engine *engine);
/* What the engine has reported of the call of this thread that has just failed: lines, the first
 * ones, for the cause comes first; if it has said nothing here, its newest line anywhere. They are
 * told once. */
void qw_said(qw_engine *engine, char *error, size_t error_length);
const char *qw_version(void);
const char *qw_text(int status);
int qw_session_open(qw_engine *engine, qw_session **out);
void qw_session_close(qw_session *session);
/* Fixes what the session sees until the end of the transaction. */
int qw_begin(qw_session *session);
/* Ends the transaction whatever it returns. */
int qw_commit(qw_session *session);
void qw_rollback(qw_session *session);
int qw_put(qw_session *session, int table, const void *key, size_t key_length, const void *value,
    size_t value_length);
/* A key that is absent is no error. */
int qw_delete(qw_session *session, int table, const void *key, size_t key_length);
/* Removes keys in from..end. */
int qw_delete_range(qw_session *session, int table, const void *from, size_t from_length,
    const void *end, size_t end_length);
/* Calls `visit` once if there is such a key. */
int qw_get(qw_session *session, int table, const void *key, size_t key_length, qw_visit visit,
    void *with);
/* Visits keys in from..end in order, or downwards from the last. */
int qw_scan(qw_session *session, int table, const void *from, size_t from_length, const void *end,
    size_t end_length, int reverse, qw_visit visit, void *with);
/* Brings the log to the device. */
int qw_flush(qw_session *session);
/* Brings everything to the device. */
int qw_checkpoint(qw_session *session);
/* Moves rows from the end of a table's file into unused space before them, and shortens the file.
 * QW_AGAIN when it was not done after so many seconds, or the cache is too full to go on. */
int qw_compact(qw_session *session, int table, int seconds);
/* `table` below 0 is the whole engine. */
int qw_statistics(qw_session *session, int table, qw_emit emit, void *with);
/* Names the files of a copy, and then the empty name: until `emit` returns from that, the files stay
 * as they are. */
int qw_backup(qw_session *session, qw_emit emit, void *with);

#endif
