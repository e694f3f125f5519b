/* A stand-in for libtokufractaltree: one sorted array in memory behind a mutex, written to a file
 * when it is closed. It insists on what the real one insists on: flags, order of calls, callbacks,
 * transactions that end once. A transaction's changes wait in it until it commits. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "db.h"

#define FAIL (-30999)
#define LOSES_EVERY 7 /* Each so manieth transaction meets a lock of somebody else's. */

struct row {
    DBT key, value;
};
struct change {
    struct row row;
    int is_delete;
    struct change *next;
};
struct rows {
    pthread_mutex_t lock;
    struct row *all;
    size_t count, room;
    uint64_t injected, begun;
    char path[4096];
    int (*compare)(const DBT *, const DBT *);
};
struct txn {
    DB_TXN face;
    struct rows *rows;
    struct change *first, **last;
    int reads_only;
};
struct cursor {
    DBC face;
    struct rows *rows;
    DBT at;
};

static DBT copy(const DBT *from) {
    DBT out = {.size = from->size, .data = malloc(from->size + 1)};
    memcpy(out.data, from->data, from->size);
    return out;
}

/* The first position whose key is not below `key`. */
static size_t seek(struct rows *rows, const DBT *key) {
    size_t low = 0, high = rows->count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (rows->compare(&rows->all[middle].key, key) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static int is_at(struct rows *rows, size_t at, const DBT *key) {
    return at < rows->count && rows->compare(&rows->all[at].key, key) == 0;
}

static void apply(struct rows *rows, struct change *change) {
    size_t at = seek(rows, &change->row.key);
    int there = is_at(rows, at, &change->row.key);
    if (change->is_delete) {
        if (there) {
            free(rows->all[at].key.data);
            free(rows->all[at].value.data);
            memmove(rows->all + at, rows->all + at + 1, (--rows->count - at) * sizeof *rows->all);
        }
        return;
    }
    rows->injected += change->row.key.size + change->row.value.size;
    if (there) {
        free(rows->all[at].value.data);
        rows->all[at].value = copy(&change->row.value);
        return;
    }
    if (rows->count == rows->room) {
        rows->room = rows->room ? rows->room * 2 : 64;
        rows->all = realloc(rows->all, rows->room * sizeof *rows->all);
    }
    memmove(rows->all + at + 1, rows->all + at, (rows->count++ - at) * sizeof *rows->all);
    rows->all[at].key = copy(&change->row.key);
    rows->all[at].value = copy(&change->row.value);
}

static int end(DB_TXN *face, int keep) {
    struct txn *txn = (struct txn *)face;
    struct change *change = txn->first, *next;
    pthread_mutex_lock(&txn->rows->lock);
    for (; change != NULL; change = next) {
        next = change->next;
        if (keep)
            apply(txn->rows, change);
        free(change->row.key.data);
        free(change->row.value.data);
        free(change);
    }
    pthread_mutex_unlock(&txn->rows->lock);
    free(txn);
    return 0;
}

static int txn_commit(DB_TXN *txn, uint32_t flags) {
    return (flags & ~(DB_TXN_SYNC | DB_TXN_NOSYNC)) ? FAIL : end(txn, 1);
}
static int txn_abort(DB_TXN *txn) {
    return end(txn, 0);
}

static int txn_begin(DB_ENV *env, DB_TXN *parent, DB_TXN **out, uint32_t flags) {
    struct txn *txn = calloc(1, sizeof *txn);
    if (parent != NULL || env->i == NULL)
        return FAIL;
    txn->rows = env->i;
    txn->last = &txn->first;
    txn->reads_only = (flags & DB_TXN_READ_ONLY) != 0;
    txn->face.commit = txn_commit;
    txn->face.abort = txn_abort;
    *out = &txn->face;
    return 0;
}

static int later(DB *db, DB_TXN *face, const DBT *key, const DBT *value) {
    struct txn *txn = (struct txn *)face;
    struct change *change = calloc(1, sizeof *change);
    const DBT nothing = {.data = ""};
    if (txn == NULL || txn->reads_only || db->i != txn->rows)
        return FAIL;
    change->is_delete = value == NULL;
    change->row.key = copy(key);
    change->row.value = copy(value ? value : &nothing);
    *txn->last = change;
    txn->last = &change->next;
    return 0;
}

static int db_put(DB *db, DB_TXN *txn, DBT *key, DBT *value, uint32_t flags) {
    struct rows *rows = db->i;
    if (flags != 0)
        return FAIL;
    if (txn != NULL && ((struct txn *)txn)->first == NULL &&
        __atomic_add_fetch(&rows->begun, 1, __ATOMIC_RELAXED) % LOSES_EVERY == 0)
        return DB_LOCK_NOTGRANTED;
    return later(db, txn, key, value);
}

static int db_del(DB *db, DB_TXN *txn, DBT *key, uint32_t flags) {
    struct rows *rows = db->i;
    if (!(flags & DB_DELETE_ANY) && !is_at(rows, seek(rows, key), key))
        return DB_NOTFOUND;
    return later(db, txn, key, NULL);
}

static int db_getf_set(
    DB *db, DB_TXN *txn, uint32_t flags, DBT *key, YDB_CALLBACK_FUNCTION see, void *extra) {
    struct rows *rows = db->i;
    int status = DB_NOTFOUND;
    size_t at;
    (void)flags;
    if (txn == NULL)
        return FAIL;
    pthread_mutex_lock(&rows->lock);
    at = seek(rows, key);
    if (is_at(rows, at, key))
        status = see(&rows->all[at].key, &rows->all[at].value, extra);
    pthread_mutex_unlock(&rows->lock);
    return status;
}

/* Called with the lock. */
static int visit(struct cursor *cursor, size_t at, YDB_CALLBACK_FUNCTION see, void *extra) {
    struct rows *rows = cursor->rows;
    if (at >= rows->count)
        return DB_NOTFOUND;
    free(cursor->at.data);
    cursor->at = copy(&rows->all[at].key);
    return see(&rows->all[at].key, &rows->all[at].value, extra);
}

static int move(DBC *face, int how, DBT *key, YDB_CALLBACK_FUNCTION see, void *extra) {
    struct cursor *cursor = (struct cursor *)face;
    struct rows *rows = cursor->rows;
    size_t at;
    int status;
    pthread_mutex_lock(&rows->lock);
    at = seek(rows, key ? key : &cursor->at);
    if (how == 'n' && is_at(rows, at, &cursor->at))
        at++;
    if (how == 'r' && !is_at(rows, at, key))
        at--;
    if (how == 'p')
        at--;
    /* Below the first, the number wraps and is above the last. */
    status = visit(cursor, at, see, extra);
    pthread_mutex_unlock(&rows->lock);
    return status;
}

static int c_set(DBC *c, uint32_t f, DBT *k, YDB_CALLBACK_FUNCTION see, void *x) {
    return f ? FAIL : move(c, 's', k, see, x);
}
static int c_set_reverse(DBC *c, uint32_t f, DBT *k, YDB_CALLBACK_FUNCTION see, void *x) {
    return f ? FAIL : move(c, 'r', k, see, x);
}
static int c_next(DBC *c, uint32_t f, YDB_CALLBACK_FUNCTION see, void *x) {
    return f ? FAIL : move(c, 'n', NULL, see, x);
}
static int c_prev(DBC *c, uint32_t f, YDB_CALLBACK_FUNCTION see, void *x) {
    return f ? FAIL : move(c, 'p', NULL, see, x);
}

static int c_close(DBC *face) {
    struct cursor *cursor = (struct cursor *)face;
    free(cursor->at.data);
    free(cursor);
    return 0;
}

static int db_cursor(DB *db, DB_TXN *txn, DBC **out, uint32_t flags) {
    struct cursor *cursor = calloc(1, sizeof *cursor);
    if (txn == NULL || flags != 0)
        return FAIL;
    cursor->rows = db->i;
    cursor->face = (DBC){.c_close = c_close,
        .c_getf_set_range = c_set,
        .c_getf_set_range_reverse = c_set_reverse,
        .c_getf_next = c_next,
        .c_getf_prev = c_prev};
    *out = &cursor->face;
    return 0;
}

static int db_stat64(DB *db, DB_TXN *txn, DB_BTREE_STAT64 *out) {
    if (txn == NULL)
        return FAIL;
    out->bt_nkeys = ((struct rows *)db->i)->count;
    return 0;
}

static int set_number(DB *db, uint32_t number) {
    return db->i == NULL && number >= 1024 ? 0 : FAIL;
}
static int set_method(DB *db, TOKU_COMPRESSION_METHOD method) {
    return db->i == NULL && (method == 0 || method >= 9) ? 0 : FAIL;
}

static int db_open(
    DB *db, DB_TXN *txn, const char *name, const char *sub, DBTYPE type, uint32_t flags, int mode) {
    struct rows *rows = db->dbenv->i;
    struct change change = {0};
    char path[5000];
    FILE *file;
    (void)mode;
    if (txn == NULL || sub != NULL || type != DB_BTREE || flags != DB_CREATE)
        return FAIL;
    snprintf(path, sizeof path, "%s/%s.tree", rows->path, name);
    strcpy(rows->path, path);
    file = fopen(path, "rb");
    while (file != NULL && fread(&change.row.key.size, 4, 1, file) == 1 &&
           fread(&change.row.value.size, 4, 1, file) == 1) {
        change.row.key.data = malloc(change.row.key.size + 1);
        change.row.value.data = malloc(change.row.value.size + 1);
        if (fread(change.row.key.data, 1, change.row.key.size, file) +
                fread(change.row.value.data, 1, change.row.value.size, file) ==
            0)
            return FAIL;
        apply(rows, &change);
        free(change.row.key.data);
        free(change.row.value.data);
    }
    if (file != NULL)
        fclose(file);
    db->i = rows;
    return 0;
}

static int db_close(DB *db, uint32_t flags) {
    struct rows *rows = db->i;
    FILE *file = rows ? fopen(rows->path, "wb") : NULL;
    (void)flags;
    for (size_t at = 0; file != NULL && at < rows->count; at++) {
        struct row *row = rows->all + at;
        fwrite(&row->key.size, 4, 1, file);
        fwrite(&row->value.size, 4, 1, file);
        fwrite(row->key.data, 1, row->key.size, file);
        fwrite(row->value.data, 1, row->value.size, file);
    }
    if (file != NULL)
        fclose(file);
    free(db);
    return 0;
}

int db_create(DB **out, DB_ENV *env, uint32_t flags) {
    DB *db = calloc(1, sizeof *db);
    if (flags != 0 || env->i == NULL)
        return FAIL;
    *db = (DB){.dbenv = env,
        .set_pagesize = set_number,
        .set_readpagesize = set_number,
        .set_compression_method = set_method,
        .open = db_open,
        .close = db_close,
        .put = db_put,
        .del = db_del,
        .getf_set = db_getf_set,
        .cursor = db_cursor,
        .stat64 = db_stat64};
    *out = db;
    return 0;
}

static int (*compare_of_all)(const DBT *, const DBT *);
static int set_compare(DB_ENV *env, int (*compare)(const DBT *, const DBT *)) {
    compare_of_all = compare;
    return env->i ? FAIL : 0;
}
static int set_cache(DB_ENV *env, uint32_t gb, uint32_t bytes, int parts) {
    return env->i || gb + bytes == 0 || parts != 1 ? FAIL : 0;
}
static int after_open(DB_ENV *env, uint32_t number) {
    (void)number;
    return env->i ? 0 : FAIL;
}
static int log_flush(DB_ENV *env, const DB_LSN *lsn) {
    return env->i && !lsn ? 0 : FAIL;
}
static int checkpoint(DB_ENV *env, uint32_t a, uint32_t b, uint32_t c) {
    return env->i && a + b + c == 0 ? 0 : FAIL;
}

static int status_text(DB_ENV *env, char *out, int room) {
    struct rows *rows = env->i;
    snprintf(out, room,
        "BUILD_ID = 0\ncheckpoint: last began: Sat Nov 21 16:00:00 2026\nft: bytes of messages "
        "injected at root (all trees): %llu\n"
        "logger: writes (bytes): 12\nft: leaf nodes flushed to disk (not for checkpoint) (bytes): "
        "5\n",
        (unsigned long long)rows->injected);
    return 0;
}

static int env_open(DB_ENV *env, const char *home, uint32_t flags, int mode) {
    struct rows *rows = calloc(1, sizeof *rows);
    if (!(flags & DB_INIT_TXN) || !(flags & DB_INIT_LOG) || !(flags & DB_THREAD) || mode == 0 ||
        !compare_of_all)
        return FAIL;
    pthread_mutex_init(&rows->lock, NULL);
    rows->compare = compare_of_all;
    snprintf(rows->path, sizeof rows->path, "%s", home);
    env->i = rows;
    return 0;
}

static int env_close(DB_ENV *env, uint32_t flags) {
    struct rows *rows = env->i;
    (void)flags;
    for (size_t at = 0; rows != NULL && at < rows->count; at++) {
        free(rows->all[at].key.data);
        free(rows->all[at].value.data);
    }
    if (rows != NULL)
        free(rows->all);
    free(rows);
    free(env);
    return 0;
}

int db_env_create(DB_ENV **out, uint32_t flags) {
    DB_ENV *env = calloc(1, sizeof *env);
    if (flags != 0)
        return FAIL;
    *env = (DB_ENV){.txn_begin = txn_begin,
        .open = env_open,
        .close = env_close,
        .set_cachesize = set_cache,
        .set_default_bt_compare = set_compare,
        .checkpointing_set_period = after_open,
        .cleaner_set_period = after_open,
        .log_flush = log_flush,
        .txn_checkpoint = checkpoint,
        .get_engine_status_text = status_text};
    *out = env;
    return 0;
}

const char *db_strerror(int status) {
    return status == FAIL ? "refused by the stand-in" : "another error";
}
const char *db_version(int *major, int *minor, int *patch) {
    (void)major;
    (void)minor;
    (void)patch;
    return "stand-in";
}
