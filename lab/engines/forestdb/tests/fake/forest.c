/* A stand-in for libforestdb: a sorted array for each file, shared by its handles, behind one
 * mutex; written out by commits. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <libforestdb/forestdb.h>

#define NOT_FOUND (-9)
#define REFUSED (-1)
#define END (-12)
#define MAGIC 0x5eed

struct row {
    size_t key_length, value_length;
    char *key, *value;
};
struct file {
    struct file *next;
    char path[4096];
    int handles;
    size_t count;
    struct row *rows;
};
struct walk {
    struct file *file;
    char *from, *end;
    size_t from_length, end_length;
    long at;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct file *files;

fdb_config fdb_get_default_config(void) {
    return (fdb_config){.magic = MAGIC, .buffercache_size = 1};
}

static int order(const char *a, size_t a_length, const char *b, size_t b_length) {
    int by_bytes = memcmp(a, b, a_length < b_length ? a_length : b_length);
    return by_bytes ? by_bytes : (a_length > b_length) - (a_length < b_length);
}

static size_t seek(struct file *file, const char *key, size_t length) {
    size_t low = 0, high = file->count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (order(file->rows[middle].key, file->rows[middle].key_length, key, length) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static int is_at(struct file *file, size_t at, const char *key, size_t length) {
    return at < file->count &&
           order(file->rows[at].key, file->rows[at].key_length, key, length) == 0;
}

static char *copy(const void *from, size_t length) {
    char *out = malloc(length + 1);
    memcpy(out, from, length);
    return out;
}

static void put(
    struct file *file, const void *key, size_t key_length, const void *value, size_t value_length) {
    size_t at = seek(file, key, key_length);
    if (is_at(file, at, key, key_length)) {
        free(file->rows[at].value);
    } else {
        file->rows = realloc(file->rows, (file->count + 1) * sizeof *file->rows);
        memmove(file->rows + at + 1, file->rows + at, (file->count++ - at) * sizeof *file->rows);
        file->rows[at].key = copy(key, key_length);
        file->rows[at].key_length = key_length;
    }
    file->rows[at].value = copy(value, value_length);
    file->rows[at].value_length = value_length;
}

int fdb_open(void **out, const char *path, fdb_config *config) {
    struct file *file;
    int wrong =
        config && (config->magic != MAGIC || config->compaction_mode != FDB_COMPACTION_AUTO ||
                      config->compaction_threshold == 0 || config->compactor_sleep_duration == 0 ||
                      config->buffercache_size <= 1);
    if (wrong)
        return REFUSED;
    pthread_mutex_lock(&lock);
    for (file = files; file && strcmp(file->path, path); file = file->next) {
    }
    if (!file) {
        size_t lengths[2];
        FILE *stored = fopen(path, "rb");
        file = calloc(1, sizeof *file);
        snprintf(file->path, sizeof file->path, "%s", path);
        while (stored && fread(lengths, sizeof lengths, 1, stored) == 1) {
            char *bytes = malloc(lengths[0] + lengths[1] + 1);
            if (fread(bytes, 1, lengths[0] + lengths[1], stored) == lengths[0] + lengths[1])
                put(file, bytes, lengths[0], bytes + lengths[0], lengths[1]);
            free(bytes);
        }
        if (stored)
            fclose(stored);
        file->next = files;
        files = file;
    }
    file->handles++;
    pthread_mutex_unlock(&lock);
    *out = file;
    return 0;
}

int fdb_commit(struct file *file, uint8_t how) {
    FILE *out;
    pthread_mutex_lock(&lock);
    out = fopen(file->path, "wb");
    for (size_t at = 0; out && at < file->count; at++) {
        struct row *row = file->rows + at;
        size_t lengths[2] = {row->key_length, row->value_length};
        fwrite(lengths, sizeof lengths, 1, out);
        fwrite(row->key, 1, row->key_length, out);
        fwrite(row->value, 1, row->value_length, out);
    }
    if (out)
        fclose(out);
    pthread_mutex_unlock(&lock);
    return out && how == 0 ? 0 : REFUSED;
}

int fdb_close(struct file *file) {
    struct file **link;
    pthread_mutex_lock(&lock);
    /* What was not committed is lost with the last handle. */
    if (--file->handles == 0) {
        for (link = &files; *link != file; link = &(*link)->next) {
        }
        *link = file->next;
    }
    pthread_mutex_unlock(&lock);
    return 0;
}

int fdb_kvs_open_default(void *file, void **out, void *config) {
    *out = file;
    return config ? REFUSED : 0;
}
int fdb_kvs_close(void *store) {
    (void)store;
    return 0;
}
int fdb_free_block(void *block) {
    free(block);
    return 0;
}

int fdb_set_kv(
    struct file *file, const void *key, size_t key_length, const void *value, size_t value_length) {
    pthread_mutex_lock(&lock);
    put(file, key, key_length, value, value_length);
    pthread_mutex_unlock(&lock);
    return 0;
}

int fdb_del_kv(struct file *file, const void *key, size_t length) {
    size_t at;
    pthread_mutex_lock(&lock);
    at = seek(file, key, length);
    if (is_at(file, at, key, length))
        memmove(file->rows + at, file->rows + at + 1, (--file->count - at) * sizeof *file->rows);
    pthread_mutex_unlock(&lock);
    return 0;
}

int fdb_get_kv(
    struct file *file, const void *key, size_t length, void **value, size_t *value_length) {
    size_t at;
    int status = NOT_FOUND;
    pthread_mutex_lock(&lock);
    at = seek(file, key, length);
    if (is_at(file, at, key, length)) {
        *value = copy(file->rows[at].value, *value_length = file->rows[at].value_length);
        status = 0;
    }
    pthread_mutex_unlock(&lock);
    return status;
}

int fdb_iterator_init(struct file *file, struct walk **out, const void *from, size_t from_length,
    const void *end, size_t end_length, uint8_t how) {
    struct walk *walk = calloc(1, sizeof *walk);
    if (how != 10 || (!from && from_length))
        return REFUSED;
    *walk = (struct walk){.file = file,
        .from = copy(from ? from : "", from_length),
        .end = copy(end, end_length),
        .from_length = from_length,
        .end_length = end_length};
    pthread_mutex_lock(&lock);
    walk->at = seek(file, walk->from, from_length);
    pthread_mutex_unlock(&lock);
    *out = walk;
    return 0;
}

static int within(struct walk *walk) {
    struct row *row = walk->file->rows + walk->at;
    if (walk->at < 0 || (size_t)walk->at >= walk->file->count)
        return END;
    if (order(row->key, row->key_length, walk->from, walk->from_length) < 0 ||
        order(row->key, row->key_length, walk->end, walk->end_length) >= 0)
        return END;
    return 0;
}

static int to(struct walk *walk, long at) {
    int status;
    pthread_mutex_lock(&lock);
    walk->at = at;
    status = within(walk);
    pthread_mutex_unlock(&lock);
    return status;
}

int fdb_iterator_seek_to_max(struct walk *walk) {
    return to(walk, (long)seek(walk->file, walk->end, walk->end_length) - 1);
}
int fdb_iterator_next(struct walk *walk) {
    return to(walk, walk->at + 1);
}
int fdb_iterator_prev(struct walk *walk) {
    return to(walk, walk->at - 1);
}

int fdb_iterator_get(struct walk *walk, fdb_doc **out) {
    int status;
    pthread_mutex_lock(&lock);
    status = within(walk);
    if (status == 0) {
        struct row *row = walk->file->rows + walk->at;
        *out = calloc(1, sizeof **out);
        **out = (fdb_doc){.keylen = row->key_length,
            .bodylen = row->value_length,
            .key = copy(row->key, row->key_length),
            .body = copy(row->value, row->value_length)};
    }
    pthread_mutex_unlock(&lock);
    return status;
}

int fdb_doc_free(fdb_doc *doc) {
    free(doc->key);
    free(doc->body);
    free(doc);
    return 0;
}

int fdb_iterator_close(struct walk *walk) {
    free(walk->from);
    free(walk->end);
    free(walk);
    return 0;
}
