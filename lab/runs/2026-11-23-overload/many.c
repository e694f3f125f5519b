// Drives a server with many connections from one thread: half finds by _id, half updates by _id,
// each connection sends its next message when the answer has come. Prints operations a second,
// the mean and the highest latency, and the CPU per operation of the server and of itself.
#define _GNU_SOURCE
// cc -O2 -o many many.c; ./many PORT SERVER_PID CLIENTS SECONDS DOCUMENTS [find|update|mix]
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
#include <dirent.h>

typedef struct { int fd; uint32_t need, have; double sent; } Client;
static double now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec + t.tv_nsec / 1e9; }
static char buf[1 << 20];
static char *put_i32(char *p, int32_t v) { memcpy(p, &v, 4); return p + 4; }
static char *name(char *p, char type, const char *key) { *p++ = type; strcpy(p, key); return p + strlen(key) + 1; }
static char *str(char *p, const char *key, const char *value) {
    p = name(p, 2, key); p = put_i32(p, strlen(value) + 1); strcpy(p, value); return p + strlen(value) + 1;
}
static char *i32(char *p, const char *key, int32_t v) { return put_i32(name(p, 16, key), v); }
static char *begin(char *p, char type, const char *key) { p = name(p, type, key); return p + 4; }
static char *end(char *p, char *start) { *p++ = 0; put_i32(start, p - start); return p; }
static int message(char *out, int update, int id) {
    char *p = out + 16; p = put_i32(p, 0); *p++ = 0; char *doc = p; p += 4;
    if (update) {
        p = str(p, "update", "c");
        char *us = p = begin(p, 4, "updates"); us -= 4;
        char *u = p = begin(p, 3, "0"); u -= 4;
        char *q = p = begin(p, 3, "q"); q -= 4; p = i32(p, "_id", id); p = end(p, q);
        char *m = p = begin(p, 3, "u"); m -= 4;
        char *inc = p = begin(p, 3, "$inc"); inc -= 4; p = i32(p, "k", 1); p = end(p, inc);
        p = end(p, m); p = end(p, u); p = end(p, us);
    } else {
        p = str(p, "find", "c");
        char *q = p = begin(p, 3, "filter"); q -= 4; p = i32(p, "_id", id); p = end(p, q);
        p = i32(p, "limit", 1); p = name(p, 8, "singleBatch"); *p++ = 1;
    }
    p = str(p, "$db", "many"); p = end(p, doc);
    int32_t head[4] = { p - out, 1, 0, 2013 }; memcpy(out, head, 16);
    return p - out;
}
static int insert(char *out, int first, int count) {
    char *p = out + 16; p = put_i32(p, 0); *p++ = 0; char *doc = p; p += 4;
    p = str(p, "insert", "c"); char *ds = p = begin(p, 4, "documents"); ds -= 4;
    for (int i = 0; i < count; i++) {
        char key[12]; sprintf(key, "%d", i); char *d = p = begin(p, 3, key); d -= 4;
        p = i32(p, "_id", first + i); p = i32(p, "k", 0);
        char pad[121]; memset(pad, 'x', 120); pad[120] = 0; p = str(p, "c", pad); p = end(p, d);
    }
    p = end(p, ds); p = str(p, "$db", "many"); p = end(p, doc);
    int32_t head[4] = { p - out, 1, 0, 2013 }; memcpy(out, head, 16);
    return p - out;
}
static double cpu_of(int pid) {
    // Sum of time on a processor over the threads, in seconds.
    char path[64]; sprintf(path, "/proc/%d/task", pid); DIR *d = opendir(path); struct dirent *e; double sum = 0;
    if (!d) return 0;
    while ((e = readdir(d))) {
        if (e->d_name[0] == '.') continue;
        char f[128]; snprintf(f, sizeof f, "/proc/%d/task/%s/schedstat", pid, e->d_name);
        FILE *h = fopen(f, "r"); unsigned long long ns = 0; if (h) { if (fscanf(h, "%llu", &ns) == 1) sum += ns / 1e9; fclose(h); }
    }
    closedir(d); return sum;
}
static int dial(int port) {
    int fd = socket(AF_INET, SOCK_STREAM, 0), one = 1; struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons(port) };
    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (connect(fd, (void *)&a, sizeof a)) { perror("connect"); exit(1); }
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one); return fd;
}
static void whole(int fd) {
    int32_t n; size_t have = 0; while (have < 4) have += read(fd, buf + have, 4 - have);
    memcpy(&n, buf, 4); while (have < (size_t)n) have += read(fd, buf + have, n - have);
}
int main(int argc, char **argv) {
    if (argc < 6) return 2;
    int port = atoi(argv[1]), pid = atoi(argv[2]), n = atoi(argv[3]), seconds = atoi(argv[4]), docs = atoi(argv[5]);
    int mode = argc > 6 ? (argv[6][0] == 'f' ? 0 : argv[6][0] == 'u' ? 1 : argv[6][0] == 'l' ? 3 : 2) : 2;
    if (mode == 3) {
        int fd = dial(port);
        for (int i = 0; i < docs; i += 1000) { int len = insert(buf, i, 1000); if (write(fd, buf, len) != len) return 1; whole(fd); }
        return 0;
    }
    Client *c = calloc(n, sizeof *c); int ep = epoll_create1(0); uint64_t s = 88172645463325252ull;
    for (int i = 0; i < n; i++) {
        c[i].fd = dial(port); struct epoll_event ev = { .events = EPOLLIN, .data.u32 = i }; epoll_ctl(ep, EPOLL_CTL_ADD, c[i].fd, &ev);
    }
    char out[512]; long done = 0, errors = 0; double t0 = now(), c0 = cpu_of(pid), sum = 0, most = 0; struct rusage r0, r1; getrusage(RUSAGE_SELF, &r0);
    for (int i = 0; i < n; i++) {
        s ^= s << 13; s ^= s >> 7; s ^= s << 17; int up = mode == 2 ? (s >> 40) & 1 : mode;
        int len = message(out, up, (s >> 8) % docs); c[i].sent = now(); if (write(c[i].fd, out, len) != len) return 1;
    }
    struct epoll_event ev[256];
    for (;;) {
        int k = epoll_wait(ep, ev, 256, 1000); double t = now();
        if (t - t0 > seconds) break;
        for (int j = 0; j < k; j++) {
            Client *x = &c[ev[j].data.u32];
            ssize_t got = read(x->fd, buf, sizeof buf); if (got <= 0) { fprintf(stderr, "closed\n"); return 1; }
            if (x->have == 0) { uint32_t need; memcpy(&need, buf, 4); x->need = need; }
            x->have += got; if (x->have < x->need) continue;
            x->have = 0; if (!memmem(buf, got, "ok\0\0\0\0\0\0\0\360?", 11)) errors++;
            double lat = t - x->sent; sum += lat; if (lat > most) most = lat; done++;
            s ^= s << 13; s ^= s >> 7; s ^= s << 17; int up = mode == 2 ? (s >> 40) & 1 : mode;
            int len = message(out, up, (s >> 8) % docs); x->sent = t; if (write(x->fd, out, len) != len) return 1;
        }
    }
    double t = now() - t0, cpu = cpu_of(pid) - c0; getrusage(RUSAGE_SELF, &r1);
    double own = r1.ru_utime.tv_sec - r0.ru_utime.tv_sec + r1.ru_stime.tv_sec - r0.ru_stime.tv_sec + (r1.ru_utime.tv_usec - r0.ru_utime.tv_usec + r1.ru_stime.tv_usec - r0.ru_stime.tv_usec) / 1e6;
    printf("%5d clients %8.0f/s mean %.2f ms most %.1f ms server %.1f us own %.1f us errors %ld\n", n, done / t, sum / done * 1e3, most * 1e3, cpu / done * 1e6, own / done * 1e6, errors);
}
