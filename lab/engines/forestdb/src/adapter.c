/* Makes a settings structure in the form of the user's own version of ForestDB. */
#include <stdlib.h>
#include <libforestdb/forestdb.h>

void *lab_config(unsigned long long cache_bytes, unsigned threshold, unsigned sleep_seconds) {
    fdb_config *out = malloc(sizeof *out);
    if (out == NULL)
        return NULL;
    *out = fdb_get_default_config();
    out->buffercache_size = cache_bytes;
    out->compaction_mode = FDB_COMPACTION_AUTO;
    out->compaction_threshold = threshold;
    out->compactor_sleep_duration = sleep_seconds;
    return out;
}

void lab_config_free(void *config) {
    free(config);
}
