/* Blocking clients that update single rows by id, each update durable before it is answered: over
   MongoDB's protocol (w: majority) or MySQL's (a prepared statement, autocommit). Usage: durable
   mongo|mysql PORT CLIENTS SECONDS ROWS. Rows are made when SECONDS is 0. Prints: updates,
   microseconds, and the median and 99th percentile of one update in microseconds. */
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { BUFFER = 1 << 20, KEPT = 1 << 20 };
static int port, rows, mysql;
static volatile int stop;

struct client {
    pthread_t thread;
    int socket;
    uint32_t statement;
    uint64_t seed;
    long count;
    float *took;
    unsigned char *in, *out;
};

static void die(const char *what) {
    fprintf(stderr, "durable: %s\n", what);
    exit(1);
}

static double now_us(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static void send_all(int fd, const void *bytes, size_t len) {
    if (send(fd, bytes, len, MSG_NOSIGNAL) != (ssize_t)len)
        die("cannot send");
}

/* Reads until at least `len` bytes are in the buffer; returns the number of bytes. */
static size_t fill(struct client *c, size_t have, size_t len) {
    while (have < len) {
        ssize_t n = recv(c->socket, c->in + have, BUFFER - have, 0);
        if (n <= 0)
            die("the server closed the connection");
        have += (size_t)n;
    }
    return have;
}

/* BSON and OP_MSG */
static size_t put(unsigned char *to, const void *bytes, size_t len) {
    memcpy(to, bytes, len);
    return len;
}

static size_t put_i32(unsigned char *to, int32_t v) {
    return put(to, &v, 4);
}

static size_t name(unsigned char *to, char kind, const char *text) {
    to[0] = (unsigned char)kind;
    return 1 + put(to + 1, text, strlen(text) + 1);
}

static size_t text(unsigned char *to, const char *key, const char *value) {
    size_t n = name(to, 2, key);
    n += put_i32(to + n, (int32_t)strlen(value) + 1);
    return n + put(to + n, value, strlen(value) + 1);
}

static size_t close_doc(unsigned char *from, size_t n) {
    from[n++] = 0;
    put_i32(from, (int32_t)n);
    return n;
}

static size_t row(unsigned char *d, int id) {
    size_t n = 4;
    n += name(d + n, 16, "_id"), n += put_i32(d + n, id);
    char pad[201];
    memset(pad, 'x', 200), pad[200] = 0;
    n += text(d + n, "pad", pad);
    return close_doc(d, n);
}

static size_t change(unsigned char *d, int id, int64_t v) {
    size_t n = 4, q, u, set;
    n += name(d + n, 3, "q"), q = 4;
    q += name(d + n + q, 16, "_id"), q += put_i32(d + n + q, id);
    n += close_doc(d + n, q);
    n += name(d + n, 3, "u"), u = 4;
    u += name(d + n + u, 3, "$set"), set = 4;
    set += name(d + n + u + set, 18, "v"), set += put(d + n + u + set, &v, 8);
    u += close_doc(d + n + u, set);
    n += close_doc(d + n, u);
    return close_doc(d, n);
}

static void mongo(
    struct client *c, const char *command, const char *list, int first, int count, int64_t v) {
    unsigned char *m = c->out, *d = m + 21;
    size_t n = 4, array = 4, w = 4;
    n += text(d + n, command, "rows");
    n += name(d + n, 4, list);
    for (int i = 0; i < count; i++) {
        char at[12];
        snprintf(at, sizeof at, "%d", i);
        array += name(d + n + array, 3, at);
        array += count > 1 ? row(d + n + array, first + i) : change(d + n + array, first, v);
    }
    n += close_doc(d + n, array);
    n += name(d + n, 3, "writeConcern");
    w += text(d + n + w, "w", "majority");
    n += close_doc(d + n, w);
    n += text(d + n, "$db", "bench");
    n = close_doc(d, n);
    put_i32(m, (int32_t)(21 + n)), put_i32(m + 4, 1), put_i32(m + 8, 0), put_i32(m + 12, 2013),
        put_i32(m + 16, 0);
    m[20] = 0;
    send_all(c->socket, m, 21 + n);
    size_t have = fill(c, 0, 4);
    fill(c, have, *(uint32_t *)c->in);
    double ok = 0;
    unsigned char *found = memmem(c->in, *(uint32_t *)c->in, "\1ok", 4);
    if (found)
        memcpy(&ok, found + 4, 8);
    if (ok != 1 || memmem(c->in, *(uint32_t *)c->in, "writeErrors", 11))
        die("an update failed");
}

/* MySQL packets */
static size_t packet(struct client *c, size_t *have) {
    *have = fill(c, *have, 4);
    size_t len = (size_t)(c->in[0] | c->in[1] << 8 | c->in[2] << 16);
    *have = fill(c, *have, 4 + len);
    return len;
}

static void drop(struct client *c, size_t *have, size_t len) {
    *have -= 4 + len;
    memmove(c->in, c->in + 4 + len, *have);
}

static void command(struct client *c, int sequence, size_t len) {
    c->out[0] = len & 255, c->out[1] = len >> 8 & 255, c->out[2] = len >> 16 & 255,
    c->out[3] = (unsigned char)sequence;
    send_all(c->socket, c->out, 4 + len);
}

static void expect_ok(struct client *c) {
    size_t have = 0, len = packet(c, &have);
    if (c->in[4] == 0xfe) {
        command(c, 3, 0);
        have = 0, len = packet(c, &have);
    }
    if (c->in[4] != 0)
        fprintf(stderr, "%.*s\n", (int)len, c->in + 4), die("a statement failed");
}

static void query(struct client *c, const char *sql) {
    c->out[4] = 3;
    command(c, 0, 1 + put(c->out + 5, sql, strlen(sql)));
    expect_ok(c);
}

static void log_in(struct client *c) {
    size_t have = 0, n = 4;
    packet(c, &have);
    memset(c->out, 0, 64);
    n += put_i32(c->out + n, 0x200 | 0x8000), n += put_i32(c->out + n, 1 << 24);
    c->out[n] = 33, n += 24;
    n += put(c->out + n, "root", 5), c->out[n++] = 0;
    command(c, 1, n - 4);
    expect_ok(c);
}

static void prepare(struct client *c) {
    const char *sql = "UPDATE bench.items SET v = ? WHERE id = ?";
    c->out[4] = 0x16;
    command(c, 0, 1 + put(c->out + 5, sql, strlen(sql)));
    size_t have = 0, len = packet(c, &have);
    if (c->in[4] != 0)
        die("cannot prepare");
    memcpy(&c->statement, c->in + 5, 4);
    for (int more = 3; more > 0; more--) {
        drop(c, &have, len);
        len = packet(c, &have);
    }
}

static void execute(struct client *c, int id, int64_t v) {
    unsigned char *d = c->out + 4;
    size_t n = 0;
    d[n++] = 0x17, n += put(d + n, &c->statement, 4), d[n++] = 0, n += put_i32(d + n, 1);
    n += put(d + n, "\0\1\10\0\3\0", 6), n += put(d + n, &v, 8), n += put_i32(d + n, id);
    command(c, 0, n);
    expect_ok(c);
}

static void open_client(struct client *c) {
    struct sockaddr_in to = {.sin_family = AF_INET,
        .sin_port = htons((uint16_t)port),
        .sin_addr = {htonl(INADDR_LOOPBACK)}};
    int one = 1;
    c->socket = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(c->socket, (struct sockaddr *)&to, sizeof to))
        die("cannot connect");
    setsockopt(c->socket, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    c->in = malloc(BUFFER), c->out = malloc(BUFFER), c->took = malloc(KEPT * sizeof(float));
    if (mysql)
        log_in(c);
}

static void load(struct client *c) {
    if (mysql) {
        query(c, "CREATE DATABASE bench");
        query(c, "CREATE TABLE bench.items (id INT PRIMARY KEY, v BIGINT, pad VARCHAR(200)) "
                 "ENGINE=InnoDB");
        char sql[200];
        snprintf(sql, sizeof sql,
            "INSERT INTO bench.items SELECT seq, 0, REPEAT('x', 200) FROM bench.seq_0_to_%d",
            rows - 1);
        /* The SEQUENCE engine generates the numbers. */
        query(c, sql);
        return;
    }
    for (int first = 0; first < rows; first += 1000)
        mongo(c, "insert", "documents", first, 1000, 0);
}

static void *work(void *given) {
    struct client *c = given;
    while (!stop) {
        c->seed = c->seed * 6364136223846793005u + 1442695040888963407u;
        int id = (int)((c->seed >> 33) % (uint64_t)rows);
        double began = now_us();
        if (mysql)
            execute(c, id, (int64_t)c->seed);
        else
            mongo(c, "update", "updates", id, 1, (int64_t)c->seed);
        c->took[c->count++ % KEPT] = (float)(now_us() - began);
    }
    return NULL;
}

static int by_size(const void *a, const void *b) {
    return *(const float *)a < *(const float *)b ? -1 : 1;
}

int main(int count, char **given) {
    if (count != 6)
        die("usage: durable mongo|mysql PORT CLIENTS SECONDS ROWS");
    mysql = !strcmp(given[1], "mysql"), port = atoi(given[2]), rows = atoi(given[5]);
    int clients = atoi(given[3]), seconds = atoi(given[4]);
    struct client *all = calloc((size_t)clients, sizeof *all);
    /* Each run has a different sequence, because an update to the same value would not write. */
    uint64_t start = (uint64_t)now_us() * 1000003u;
    for (int i = 0; i < clients; i++)
        all[i].seed = start + (uint64_t)i * 7919 + 1, open_client(&all[i]);
    if (!seconds)
        return load(&all[0]), 0;
    if (mysql)
        for (int i = 0; i < clients; i++)
            prepare(&all[i]);
    double began = now_us();
    for (int i = 0; i < clients; i++)
        pthread_create(&all[i].thread, NULL, work, &all[i]);
    sleep((unsigned)seconds);
    stop = 1;
    long total = 0, kept = 0;
    for (int i = 0; i < clients; i++)
        pthread_join(all[i].thread, NULL), total += all[i].count;
    double took = now_us() - began;
    float *every = malloc((size_t)total * sizeof *every);
    for (int i = 0; i < clients; i++)
        for (long n = 0; n < all[i].count && n < KEPT; n++)
            every[kept++] = all[i].took[n];
    qsort(every, (size_t)kept, sizeof *every, by_size);
    printf("%ld %.0f %.0f %.0f\n", total, took, every[kept / 2], every[kept * 99 / 100]);
}
