/* The lab's adapter for PerconaFT (TokuFT): compiled on the user's machine against the db.h that
 * the library's build made. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <db.h>

#include "adapter.h"

#ifndef TOKUDB_SUCCEEDED_EARLY
#error "this db.h is Berkeley DB's, not PerconaFT's"
#endif

struct lab_engine {
    DB_ENV *env;
    DB *rows;
};

struct lab_session {
    lab_engine *engine;
    DB_TXN *change;
};

static int again(int status) {
    return status == DB_LOCK_NOTGRANTED || status == DB_LOCK_DEADLOCK ? LAB_AGAIN : status;
}

static int compare(DB *db, const DBT *a, const DBT *b) {
    int by_bytes = memcmp(a->data, b->data, a->size < b->size ? a->size : b->size);
    (void)db;
    return by_bytes != 0 ? by_bytes : (a->size > b->size) - (a->size < b->size);
}

/* In older headers the comparison function has the tree as an argument, in newer ones it has not. */
static int compare_keys(const DBT *a, const DBT *b) {
    return compare(NULL, a, b);
}

#define SET_COMPARE(env)                                                                           \
    _Generic((env)->set_default_bt_compare,                                                        \
        int (*)(DB_ENV *, int (*)(const DBT *, const DBT *)): set_compare_keys,                    \
        int (*)(DB_ENV *, int (*)(DB *, const DBT *, const DBT *)): set_compare_in_tree)(env)

static int set_compare_keys(DB_ENV *env) {
    int (*set)(DB_ENV *, int (*)(const DBT *, const DBT *)) = (void *)env->set_default_bt_compare;
    return set(env, compare_keys);
}

static int set_compare_in_tree(DB_ENV *env) {
    int (*set)(DB_ENV *, int (*)(DB *, const DBT *, const DBT *)) =
        (void *)env->set_default_bt_compare;
    return set(env, compare);
}

static const char *option(const char *const *options, const char *name) {
    for (; options[0] != NULL; options += 2)
        if (strcmp(options[0], name) == 0)
            return options[1];
    return "";
}

static unsigned long long amount(const char *const *options, const char *name) {
    return strtoull(option(options, name), NULL, 10);
}

static int open_rows(lab_engine *engine, const char *const *options) {
    unsigned long long page = amount(options, "page"), basement = amount(options, "basement"),
                       method = amount(options, "compression");
    DB_TXN *txn = NULL;
    int status = db_create(&engine->rows, engine->env, 0);
    if (status == 0 && page > 0)
        status = engine->rows->set_pagesize(engine->rows, (uint32_t)page);
    if (status == 0 && basement > 0)
        status = engine->rows->set_readpagesize(engine->rows, (uint32_t)basement);
    if (status == 0)
        status =
            engine->rows->set_compression_method(engine->rows, (TOKU_COMPRESSION_METHOD)method);
    if (status == 0)
        status = engine->env->txn_begin(engine->env, NULL, &txn, 0);
    if (status == 0) {
        status = engine->rows->open(engine->rows, txn, "rows", NULL, DB_BTREE, DB_CREATE, 0644);
        if (status == 0)
            status = txn->commit(txn, 0);
        else
            txn->abort(txn);
    }
    return status;
}

int lab_open(const char *directory, const char *const *options, lab_engine **out, char *error,
    size_t error_length) {
    lab_engine *engine = calloc(1, sizeof *engine);
    unsigned long long cache = amount(options, "cache");
    const unsigned long long gigabyte = 1ULL << 30;
    const char *what = "db_env_create";
    int status;
    if (engine == NULL)
        return LAB_NO_MEMORY;
    status = db_env_create(&engine->env, 0);
    if (status == 0)
        status = SET_COMPARE(engine->env);
    if (status == 0) {
        what = "set_cachesize";
        status = engine->env->set_cachesize(
            engine->env, (uint32_t)(cache / gigabyte), (uint32_t)(cache % gigabyte), 1);
    }
    if (status == 0) {
        what = "DB_ENV->open";
        status = engine->env->open(engine->env, directory,
            DB_CREATE | DB_PRIVATE | DB_THREAD | DB_INIT_LOCK | DB_INIT_LOG | DB_INIT_MPOOL |
                DB_INIT_TXN | DB_RECOVER,
            0755);
    }
    if (status == 0) {
        what = "checkpointing_set_period";
        status = engine->env->checkpointing_set_period(engine->env, 60);
    }
    if (status == 0) {
        what = "cleaner_set_period";
        status = engine->env->cleaner_set_period(engine->env, 1);
    }
    if (status == 0) {
        what = "DB->open";
        status = open_rows(engine, options);
    }
    if (status != 0) {
        snprintf(error, error_length, "%s returned %d", what, status);
        if (engine->rows != NULL)
            engine->rows->close(engine->rows, 0);
        if (engine->env != NULL)
            engine->env->close(engine->env, 0);
        free(engine);
        return status;
    }
    *out = engine;
    return 0;
}

int lab_close(lab_engine *engine) {
    int status = engine->rows->close(engine->rows, 0);
    int closed = engine->env->close(engine->env, 0);
    free(engine);
    return status != 0 ? status : closed;
}

const char *lab_version(void) {
    return db_version(NULL, NULL, NULL);
}

const char *lab_text(int status) {
#ifdef TOKUDB_HUGE_PAGES_ENABLED
    if (status == TOKUDB_HUGE_PAGES_ENABLED)
        return "it refuses to run with transparent huge pages (switch them off, or set "
               "TOKU_HUGE_PAGES_OK=1 for a trial)";
#endif
    const char *text = db_strerror(status);
    return text != NULL ? text : "an unknown error";
}

int lab_session_open(lab_engine *engine, lab_session **out) {
    lab_session *session = calloc(1, sizeof *session);
    if (session == NULL)
        return LAB_NO_MEMORY;
    session->engine = engine;
    *out = session;
    return 0;
}

void lab_session_close(lab_session *session) {
    free(session);
}

int lab_begin(lab_session *session) {
    return again(session->engine->env->txn_begin(session->engine->env, NULL, &session->change, 0));
}

static DBT block(const void *data, size_t length) {
    DBT out;
    memset(&out, 0, sizeof out);
    out.data = (void *)data;
    out.size = (uint32_t)length;
    return out;
}

int lab_put(lab_session *session, const void *key, size_t key_length, const void *value,
    size_t value_length) {
    DBT k = block(key, key_length), v = block(value, value_length);
    return again(session->engine->rows->put(session->engine->rows, session->change, &k, &v, 0));
}

/* Deletes without reading the key: the tree sends only a message. */
int lab_delete(lab_session *session, const void *key, size_t key_length) {
    DBT k = block(key, key_length);
    return again(
        session->engine->rows->del(session->engine->rows, session->change, &k, DB_DELETE_ANY));
}

int lab_commit(lab_session *session, int sync) {
    DB_TXN *txn = session->change;
    session->change = NULL;
    return again(txn->commit(txn, sync ? DB_TXN_SYNC : DB_TXN_NOSYNC));
}

void lab_rollback(lab_session *session) {
    DB_TXN *txn = session->change;
    session->change = NULL;
    txn->abort(txn);
}

/* A visitor and its context, for the tree's callbacks. */
struct walk {
    lab_visit visit;
    void *with;
    const void *bound; /* Keys from here on (or below it, downwards) end the walk. */
    size_t bound_length;
    const void *skip; /* The end itself, where the walk downwards starts. */
    size_t skip_length;
    int reverse;
    int goes_on;
};

static int see(const DBT *key, const DBT *value, void *extra) {
    struct walk *walk = extra;
    DBT bound = block(walk->bound, walk->bound_length), skip = block(walk->skip, walk->skip_length);
    if (walk->bound != NULL &&
        (walk->reverse ? compare(NULL, key, &bound) < 0 : compare(NULL, key, &bound) >= 0)) {
        walk->goes_on = 0;
        return 0;
    }
    if (walk->skip == NULL || compare(NULL, key, &skip) != 0)
        walk->goes_on = walk->visit(walk->with, key->data, key->size, value->data, value->size);
    return 0;
}

/* A read-only snapshot takes no locks. */
static int read_begin(lab_engine *engine, DB_TXN **txn) {
    return engine->env->txn_begin(engine->env, NULL, txn,
        DB_TXN_SNAPSHOT
#ifdef DB_TXN_READ_ONLY
            | DB_TXN_READ_ONLY
#endif
    );
}

int lab_get(lab_session *session, const void *key, size_t key_length, lab_visit visit, void *with) {
    lab_engine *engine = session->engine;
    struct walk walk = {.visit = visit, .with = with, .goes_on = 1};
    DBT k = block(key, key_length);
    DB_TXN *txn = NULL;
    int ended, status = read_begin(engine, &txn);
    if (status != 0)
        return again(status);
    status = engine->rows->getf_set(engine->rows, txn, 0, &k, see, &walk);
    ended = txn->commit(txn, 0);
    return status == DB_NOTFOUND ? ended : again(status != 0 ? status : ended);
}

int lab_scan(lab_session *session, const void *from, size_t from_length, const void *end,
    size_t end_length, int reverse, lab_visit visit, void *with) {
    lab_engine *engine = session->engine;
    struct walk walk = {.visit = visit, .with = with, .reverse = reverse, .goes_on = 1};
    DBT start = reverse ? block(end, end_length) : block(from, from_length);
    DB_TXN *txn = NULL;
    DBC *cursor = NULL;
    int ended, status = read_begin(engine, &txn);
    if (status != 0)
        return again(status);
    walk.bound = reverse ? from : end;
    walk.bound_length = reverse ? from_length : end_length;
    walk.skip = reverse ? end : NULL;
    walk.skip_length = reverse ? end_length : 0;
    status = engine->rows->cursor(engine->rows, txn, &cursor, 0);
    if (status == 0)
        status = reverse ? cursor->c_getf_set_range_reverse(cursor, 0, &start, see, &walk)
                         : cursor->c_getf_set_range(cursor, 0, &start, see, &walk);
    while (status == 0 && walk.goes_on)
        status = reverse ? cursor->c_getf_prev(cursor, 0, see, &walk)
                         : cursor->c_getf_next(cursor, 0, see, &walk);
    if (cursor != NULL)
        cursor->c_close(cursor);
    ended = txn->commit(txn, 0);
    return status == DB_NOTFOUND ? ended : again(status != 0 ? status : ended);
}

int lab_flush(lab_session *session) {
    return session->engine->env->log_flush(session->engine->env, NULL);
}

int lab_checkpoint(lab_session *session) {
    return session->engine->env->txn_checkpoint(session->engine->env, 0, 0, 0);
}

/* The engine prints its statistics as lines of a name, a colon and a value; values that are not
 * numbers are skipped. */
int lab_statistics(lab_session *session, lab_emit emit, void *with) {
    DB_BTREE_STAT64 tree;
    const size_t room = 256 << 10;
    char *line, *rest, *text = calloc(1, room);
    DB_TXN *txn = NULL;
    int status;
    if (text == NULL)
        return LAB_NO_MEMORY;
    status =
        session->engine->env->get_engine_status_text(session->engine->env, text, (int)(room - 1));
    for (line = strtok_r(text, "\n", &rest); status == 0 && line != NULL;
        line = strtok_r(NULL, "\n", &rest)) {
        char *after, *colon = strrchr(line, ':');
        double value;
        if (colon == NULL)
            continue;
        *colon = '\0';
        value = strtod(colon + 1, &after);
        if (after != colon + 1 && strspn(after, " \t\r") == strlen(after))
            emit(with, line, value);
    }
    free(text);
    memset(&tree, 0, sizeof tree);
    if (status == 0)
        status = read_begin(session->engine, &txn);
    if (status == 0) {
        status = session->engine->rows->stat64(session->engine->rows, txn, &tree);
        txn->commit(txn, 0);
        emit(with, "rows: keys, estimated", (double)tree.bt_nkeys);
        emit(with, "rows: bytes, estimated", (double)tree.bt_dsize);
        emit(with, "rows: file bytes", (double)tree.bt_fsize);
    }
    return status;
}
