/* The lab's adapter for RocksDB: compiled on the user's machine against the c.h of the user's own
 * library, of whatever version. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <rocksdb/c.h>

#include "adapter.h"

/* The library returns texts instead of error numbers; this keeps the last text of each thread. */
#define FAILED 1

static _Thread_local char last_error[512] = "no error";
static char version[32] = "of unknown version";

struct lab_engine {
    rocksdb_t *db;
    rocksdb_options_t *options; /* As given in words; they hold the statistics. */
    int has_log;
};

struct lab_session {
    lab_engine *engine;
    rocksdb_writeoptions_t *lazy, *synced;
    rocksdb_readoptions_t *read;
    rocksdb_writebatch_t *batch;
};

static int checked(char *error) {
    if (error == NULL)
        return 0;
    snprintf(last_error, sizeof last_error, "%s", error);
    rocksdb_free(error);
    return FAILED;
}

static const char *option(const char *const *options, const char *name) {
    for (; options[0] != NULL; options += 2)
        if (strcmp(options[0], name) == 0)
            return options[1];
    return "";
}

/* Applies one setting on top of the previous options, and frees the previous options. */
static int changed(rocksdb_options_t **options, const char *text) {
    rocksdb_options_t *after = rocksdb_options_create();
    char *error = NULL;
    rocksdb_get_options_from_string(*options, text, after, &error);
    rocksdb_options_destroy(*options);
    *options = after;
    return checked(error);
}

/* No function returns the version; the library writes it into its options file. */
static void find_version(const char *directory) {
    char path[4096], line[256], newest[64] = "";
    struct dirent *entry;
    DIR *files = opendir(directory);
    FILE *file;
    if (files == NULL)
        return;
    while ((entry = readdir(files)) != NULL)
        if (strncmp(entry->d_name, "OPTIONS-", 8) == 0 && strcmp(entry->d_name, newest) > 0 &&
            strlen(entry->d_name) < sizeof newest)
            strcpy(newest, entry->d_name);
    closedir(files);
    snprintf(path, sizeof path, "%s/%s", directory, newest);
    file = fopen(path, "r");
    if (file == NULL)
        return;
    while (fgets(line, sizeof line, file) != NULL)
        if (sscanf(line, " rocksdb_version=%31s", version) == 1)
            break;
    fclose(file);
}

int lab_open(const char *directory, const char *const *options, lab_engine **out, char *error,
    size_t error_length) {
    lab_engine *engine = calloc(1, sizeof *engine);
    char *failed = NULL;
    int status;
    if (engine == NULL)
        return LAB_NO_MEMORY;
    engine->has_log = strcmp(option(options, "log"), "true") == 0;
    engine->options = rocksdb_options_create();
    rocksdb_options_set_create_if_missing(engine->options, 1);
    rocksdb_options_enable_statistics(engine->options);
    rocksdb_options_increase_parallelism(
        engine->options, (int)sysconf(_SC_NPROCESSORS_ONLN));
    status = changed(&engine->options, option(options, "options"));
    if (status == 0)
        status = changed(&engine->options, option(options, "own"));
    if (status == 0) {
        engine->db = rocksdb_open(engine->options, directory, &failed);
        status = checked(failed);
    }
    if (status != 0) {
        snprintf(error, error_length, "%s", "");
        rocksdb_options_destroy(engine->options);
        free(engine);
        return status;
    }
    find_version(directory);
    *out = engine;
    return 0;
}

int lab_close(lab_engine *engine) {
    rocksdb_close(engine->db);
    rocksdb_options_destroy(engine->options);
    free(engine);
    return 0;
}

const char *lab_version(void) {
    return version;
}

const char *lab_text(int status) {
    return status == FAILED ? last_error : "an unknown error";
}

int lab_session_open(lab_engine *engine, lab_session **out) {
    lab_session *session = calloc(1, sizeof *session);
    if (session == NULL)
        return LAB_NO_MEMORY;
    session->engine = engine;
    session->lazy = rocksdb_writeoptions_create();
    rocksdb_writeoptions_disable_WAL(session->lazy, !engine->has_log);
    session->synced = rocksdb_writeoptions_create();
    rocksdb_writeoptions_set_sync(session->synced, 1);
    session->read = rocksdb_readoptions_create();
    session->batch = rocksdb_writebatch_create();
    *out = session;
    return 0;
}

void lab_session_close(lab_session *session) {
    rocksdb_writeoptions_destroy(session->lazy);
    rocksdb_writeoptions_destroy(session->synced);
    rocksdb_readoptions_destroy(session->read);
    rocksdb_writebatch_destroy(session->batch);
    free(session);
}

int lab_begin(lab_session *session) {
    rocksdb_writebatch_clear(session->batch);
    return 0;
}

int lab_put(lab_session *session, const void *key, size_t key_length, const void *value,
    size_t value_length) {
    rocksdb_writebatch_put(session->batch, key, key_length, value, value_length);
    return 0;
}

int lab_delete(lab_session *session, const void *key, size_t key_length) {
    rocksdb_writebatch_delete(session->batch, key, key_length);
    return 0;
}

int lab_commit(lab_session *session, int sync) {
    char *error = NULL;
    rocksdb_write(
        session->engine->db, sync ? session->synced : session->lazy, session->batch, &error);
    return checked(error);
}

void lab_rollback(lab_session *session) {
    rocksdb_writebatch_clear(session->batch);
}

int lab_get(lab_session *session, const void *key, size_t key_length, lab_visit visit, void *with) {
    char *error = NULL;
    rocksdb_pinnableslice_t *found =
        rocksdb_get_pinned(session->engine->db, session->read, key, key_length, &error);
    if (found != NULL) {
        size_t length = 0;
        const char *value = rocksdb_pinnableslice_value(found, &length);
        visit(with, key, key_length, value, length);
        rocksdb_pinnableslice_destroy(found);
    }
    return checked(error);
}

int lab_scan(lab_session *session, const void *from, size_t from_length, const void *end,
    size_t end_length, int reverse, lab_visit visit, void *with) {
    rocksdb_readoptions_t *options = rocksdb_readoptions_create();
    rocksdb_iterator_t *cursor;
    char *error = NULL;
    int goes_on = 1;
    if (from_length > 0)
        rocksdb_readoptions_set_iterate_lower_bound(options, from, from_length);
    rocksdb_readoptions_set_iterate_upper_bound(options, end, end_length);
    cursor = rocksdb_create_iterator(session->engine->db, options);
    if (reverse)
        rocksdb_iter_seek_to_last(cursor);
    else
        rocksdb_iter_seek_to_first(cursor);
    while (goes_on && rocksdb_iter_valid(cursor)) {
        size_t key_length, value_length;
        const char *key = rocksdb_iter_key(cursor, &key_length);
        const char *value = rocksdb_iter_value(cursor, &value_length);
        goes_on = visit(with, key, key_length, value, value_length);
        if (goes_on && reverse)
            rocksdb_iter_prev(cursor);
        else if (goes_on)
            rocksdb_iter_next(cursor);
    }
    rocksdb_iter_get_error(cursor, &error);
    rocksdb_iter_destroy(cursor);
    rocksdb_readoptions_destroy(options);
    return checked(error);
}

int lab_flush(lab_session *session) {
    char *error = NULL;
    rocksdb_flush_wal(session->engine->db, 1, &error);
    return checked(error);
}

int lab_checkpoint(lab_session *session) {
    rocksdb_flushoptions_t *options = rocksdb_flushoptions_create();
    char *error = NULL;
    rocksdb_flushoptions_set_wait(options, 1);
    rocksdb_flush(session->engine->db, options, &error);
    rocksdb_flushoptions_destroy(options);
    return checked(error);
}

/* Numbers of the database, and the library's counts, which it prints as lines of a name and a
 * number; lines of histograms have more between the two and are left out. */
int lab_statistics(lab_session *session, lab_emit emit, void *with) {
    static const char *const numbers[] = {"estimate-pending-compaction-bytes",
        "num-files-at-level0", "total-sst-files-size", "live-sst-files-size",
        "cur-size-all-mem-tables", "block-cache-usage", "estimate-table-readers-mem",
        "actual-delayed-write-rate", "is-write-stopped", "num-running-compactions",
        "num-running-flushes", "compaction-pending", "mem-table-flush-pending"};
    char *line, *rest, *text = rocksdb_options_statistics_get_string(session->engine->options);
    size_t at;
    for (at = 0; at < sizeof numbers / sizeof *numbers; at++) {
        char name[64];
        uint64_t value;
        snprintf(name, sizeof name, "rocksdb.%s", numbers[at]);
        if (rocksdb_property_int(session->engine->db, name, &value) == 0)
            emit(with, numbers[at], (double)value);
    }
    for (line = text == NULL ? NULL : strtok_r(text, "\n", &rest); line != NULL;
        line = strtok_r(NULL, "\n", &rest)) {
        char *space = strchr(line, ' '), *after;
        double value;
        if (space == NULL || strncmp(space, " COUNT : ", 9) != 0)
            continue;
        *space = '\0';
        value = strtod(space + 9, &after);
        if (after != space + 9)
            emit(with, strncmp(line, "rocksdb.", 8) == 0 ? line + 8 : line, value);
    }
    rocksdb_free(text);
    return 0;
}
