/* Preloaded into a server: the file named by QUARRY_SYNC_FAULT sets the behavior of fdatasync and fsync on journal files: RocksDB's *.log,
   WiredTiger's WiredTigerLog.*, and data.mdb, which is LMDB's journal, too.
   "fail": they fail with EIO. "delay N": they take N milliseconds longer. Without the file nothing changes. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int is_journal(int fd) {
  char link[64], path[4096];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t n = readlink(link, path, sizeof path - 1);
  path[n > 0 ? n : 0] = 0;
  const char *name = strrchr(path, '/'), *end = strrchr(path, '.');
  if (!name || !end) return 0;
  return strcmp(end, ".log") == 0 || strncmp(name, "/WiredTigerLog.", 15) == 0 || strcmp(name, "/data.mdb") == 0;
}

static int faulty(int fd, const char *name) {
  int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, name);
  const char *control = getenv("QUARRY_SYNC_FAULT");
  char what[64] = "";
  if (control && is_journal(fd)) {
    int file = open(control, O_RDONLY | O_CLOEXEC);
    if (file >= 0) {
      ssize_t n = read(file, what, sizeof what - 1);
      what[n > 0 ? n : 0] = 0;
      close(file);
    }
  }
  if (strncmp(what, "fail", 4) == 0) {
    errno = EIO;
    return -1;
  }
  if (strncmp(what, "delay ", 6) == 0) usleep((useconds_t)atoi(what + 6) * 1000);
  return real(fd);
}

int fsync(int fd) { return faulty(fd, "fsync"); }
int fdatasync(int fd) { return faulty(fd, "fdatasync"); }
