/* The flat interface between the lab and an adapter. An adapter is compiled against the header of
 * the user's version of the engine, so that the compiler knows the offsets of its structures. The
 * functions that the lab calls never change. Each returns 0, LAB_AGAIN, or an error number of the
 * engine that lab_text explains. */
#ifndef LAB_ADAPTER_H
#define LAB_ADAPTER_H

#include <stddef.h>
#include <stdint.h>

/* The transaction lost a conflict with another one: it must be rolled back and may be repeated. */
#define LAB_AGAIN 1000001
/* The adapter could not allocate memory. */
#define LAB_NO_MEMORY 1000002

typedef struct lab_engine lab_engine;
typedef struct lab_session lab_session;
/* Gets a key and its value; returning 0 ends the scan. */
typedef int (*lab_visit)(
    void *with, const void *key, size_t key_length, const void *value, size_t value_length);
/* Gets a statistic. */
typedef void (*lab_emit)(void *with, const char *name, double value);

/* `options` alternates names and values and ends with a null pointer. After a failure `error` may
 * contain a message. */
int lab_open(const char *directory, const char *const *options, lab_engine **out, char *error,
    size_t error_length);
int lab_close(lab_engine *engine);
const char *lab_version(void);
const char *lab_text(int status);
int lab_session_open(lab_engine *engine, lab_session **out);
void lab_session_close(lab_session *session);
int lab_begin(lab_session *session);
int lab_put(lab_session *session, const void *key, size_t key_length, const void *value,
    size_t value_length);
/* A missing key is not an error. */
int lab_delete(lab_session *session, const void *key, size_t key_length);
/* Ends the transaction, whatever value it returns. */
int lab_commit(lab_session *session, int sync);
void lab_rollback(lab_session *session);
/* Calls `visit` once if the key exists. */
int lab_get(lab_session *session, const void *key, size_t key_length, lab_visit visit, void *with);
/* Visits keys in from..end in ascending order, or in descending order from the last. */
int lab_scan(lab_session *session, const void *from, size_t from_length, const void *end,
    size_t end_length, int reverse, lab_visit visit, void *with);
/* Syncs the log to storage. */
int lab_flush(lab_session *session);
/* Syncs all data to storage. */
int lab_checkpoint(lab_session *session);
int lab_statistics(lab_session *session, lab_emit emit, void *with);

#endif
