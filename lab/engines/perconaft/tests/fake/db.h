/* A stand-in for PerconaFT's db.h with what the adapter uses, for tests. The order of fields is
 * deliberately not the real one: the adapter goes by names. */
#ifndef FAKE_DB_H
#define FAKE_DB_H
#include <stdint.h>

#define DB_CREATE 1
#define DB_THREAD 2
#define DB_RECOVER 4
#define DB_PRIVATE 8
#define DB_INIT_LOCK 16
#define DB_INIT_LOG 32
#define DB_INIT_MPOOL 64
#define DB_INIT_TXN 128
#define DB_NOTFOUND (-30989)
#define DB_LOCK_NOTGRANTED (-30994)
#define DB_LOCK_DEADLOCK (-30995)
#define DB_DELETE_ANY 65536
#define DB_TXN_NOSYNC 256
#define DB_TXN_SYNC 512
#define DB_TXN_SNAPSHOT 1024
#define DB_TXN_READ_ONLY 2048
#define TOKUDB_SUCCEEDED_EARLY (-100001)

typedef enum { DB_BTREE = 1 } DBTYPE;
typedef enum { TOKU_NO_COMPRESSION = 0, TOKU_QUICKLZ_METHOD = 9 } TOKU_COMPRESSION_METHOD;
typedef struct fake_env DB_ENV;
typedef struct fake_db DB;
typedef struct fake_txn DB_TXN;
typedef struct fake_cursor DBC;
typedef struct {
    uint32_t size;
    void *data;
    uint32_t ulen, flags;
} DBT;
typedef struct {
    uint64_t lsn;
} DB_LSN;
typedef struct {
    uint64_t bt_fsize, bt_dsize, bt_nkeys;
} DB_BTREE_STAT64;
typedef int (*YDB_CALLBACK_FUNCTION)(const DBT *, const DBT *, void *);

struct fake_env {
    void *i;
    int (*txn_begin)(DB_ENV *, DB_TXN *, DB_TXN **, uint32_t);
    int (*open)(DB_ENV *, const char *, uint32_t, int);
    int (*close)(DB_ENV *, uint32_t);
    int (*set_cachesize)(DB_ENV *, uint32_t, uint32_t, int);
    int (*set_default_bt_compare)(DB_ENV *, int (*)(const DBT *, const DBT *));
    int (*checkpointing_set_period)(DB_ENV *, uint32_t);
    int (*cleaner_set_period)(DB_ENV *, uint32_t);
    int (*log_flush)(DB_ENV *, const DB_LSN *);
    int (*txn_checkpoint)(DB_ENV *, uint32_t, uint32_t, uint32_t);
    int (*get_engine_status_text)(DB_ENV *, char *, int);
};
struct fake_db {
    void *i;
    DB_ENV *dbenv;
    int (*set_pagesize)(DB *, uint32_t);
    int (*set_readpagesize)(DB *, uint32_t);
    int (*set_compression_method)(DB *, TOKU_COMPRESSION_METHOD);
    int (*open)(DB *, DB_TXN *, const char *, const char *, DBTYPE, uint32_t, int);
    int (*close)(DB *, uint32_t);
    int (*put)(DB *, DB_TXN *, DBT *, DBT *, uint32_t);
    int (*del)(DB *, DB_TXN *, DBT *, uint32_t);
    int (*getf_set)(DB *, DB_TXN *, uint32_t, DBT *, YDB_CALLBACK_FUNCTION, void *);
    int (*cursor)(DB *, DB_TXN *, DBC **, uint32_t);
    int (*stat64)(DB *, DB_TXN *, DB_BTREE_STAT64 *);
};
struct fake_txn {
    void *i;
    int (*abort)(DB_TXN *);
    int (*commit)(DB_TXN *, uint32_t);
};
struct fake_cursor {
    void *i;
    int (*c_close)(DBC *);
    int (*c_getf_set_range)(DBC *, uint32_t, DBT *, YDB_CALLBACK_FUNCTION, void *);
    int (*c_getf_set_range_reverse)(DBC *, uint32_t, DBT *, YDB_CALLBACK_FUNCTION, void *);
    int (*c_getf_next)(DBC *, uint32_t, YDB_CALLBACK_FUNCTION, void *);
    int (*c_getf_prev)(DBC *, uint32_t, YDB_CALLBACK_FUNCTION, void *);
};

int db_env_create(DB_ENV **, uint32_t);
int db_create(DB **, DB_ENV *, uint32_t);
const char *db_strerror(int);
const char *db_version(int *, int *, int *);
#endif
