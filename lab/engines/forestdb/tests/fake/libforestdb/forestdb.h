/* A stand-in for ForestDB's header with what the adapter uses, for tests; the order of fields is
 * deliberately not the real one. */
#ifndef FAKE_FORESTDB_H
#define FAKE_FORESTDB_H
#include <stddef.h>
#include <stdint.h>

enum { FDB_COMPACTION_MANUAL = 0, FDB_COMPACTION_AUTO = 1 };
typedef struct {
    uint64_t compactor_sleep_duration;
    uint8_t compaction_threshold;
    uint8_t compaction_mode;
    uint64_t buffercache_size;
    uint32_t magic;
} fdb_config;
typedef struct {
    size_t keylen, metalen, bodylen, size_ondisk;
    void *key;
    uint64_t seqnum, offset;
    void *meta, *body;
} fdb_doc;

fdb_config fdb_get_default_config(void);
#endif
