/* Preloaded into a server whose engine writes in place. Before each write to a file of the directory named by QUARRY_UNDO_DIR it
   records the old content of the pages, and after each sync the writes it covers, in the file named by QUARRY_UNDO_LOG.
   With this log, pages not covered by a finished sync can be reset to their old content. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#define PAGE 4096

/* One entry of the log: head, path, bytes. Kinds: w, a write of pages, with their old content (shorter at the end of the file);
   s, a sync that covers all writes of the file with numbers up to this; d, a durable write, which covers its own pages. */
struct head {
  char kind, unused[3];
  unsigned path_len;
  unsigned long long number, offset, len, bytes_len;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned long long writes;
static int out = -2;

static ssize_t (*real_pwrite)(int, const void *, size_t, off_t);

static void put(const void *bytes, size_t len) {
  static ssize_t (*real_write)(int, const void *, size_t);
  if (!real_write) real_write = (ssize_t(*)(int, const void *, size_t))dlsym(RTLD_NEXT, "write");
  while (len > 0) {
    ssize_t n = real_write(out, bytes, len);
    if (n <= 0) abort();
    bytes = (const char *)bytes + n;
    len -= (size_t)n;
  }
}

/* The path of a data file, else 0. The caller holds the lock. */
static size_t data_file(int fd, char *path, size_t size) {
  struct stat what;
  char link[64];
  const char *folder = getenv("QUARRY_UNDO_DIR");
  if (out == -2) {
    const char *name = getenv("QUARRY_UNDO_LOG");
    out = name && folder ? open(name, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600) : -1;
    real_pwrite = (ssize_t(*)(int, const void *, size_t, off_t))dlsym(RTLD_NEXT, "pwrite");
  }
  if (out < 0 || fd == out || fstat(fd, &what) != 0 || !S_ISREG(what.st_mode)) return 0;
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t n = readlink(link, path, size - 1);
  if (n <= 0) return 0;
  path[n] = 0;
  return strncmp(path, folder, strlen(folder)) == 0 ? (size_t)n : 0;
}

static void note(char kind, int fd, const char *path, size_t path_len, unsigned long long number, off_t offset, size_t len) {
  struct head head = {.kind = kind, .path_len = (unsigned)path_len, .number = number};
  char *bytes = NULL;
  if (kind != 's') {
    off_t first = offset / PAGE * PAGE, end = (offset + (off_t)len + PAGE - 1) / PAGE * PAGE;
    head.offset = (unsigned long long)first;
    head.len = (unsigned long long)(end - first);
  }
  if (kind == 'w') {
    if (!(bytes = malloc(head.len))) abort();
    /* A file that is open only for writing is read through another descriptor. */
    ssize_t n = pread(fd, bytes, head.len, (off_t)head.offset);
    if (n < 0) {
      int again = open(path, O_RDONLY | O_CLOEXEC);
      n = again < 0 ? -1 : pread(again, bytes, head.len, (off_t)head.offset);
      if (again >= 0) close(again);
    }
    if (n < 0) abort();
    head.bytes_len = (unsigned long long)n;
  }
  put(&head, sizeof head);
  put(path, path_len);
  put(bytes, head.bytes_len);
  free(bytes);
}

ssize_t pwrite(int fd, const void *bytes, size_t len, off_t offset) {
  char path[4096];
  pthread_mutex_lock(&lock);
  size_t path_len = data_file(fd, path, sizeof path);
  if (!real_pwrite) real_pwrite = (ssize_t(*)(int, const void *, size_t, off_t))dlsym(RTLD_NEXT, "pwrite");
  if (path_len) note('w', fd, path, path_len, ++writes, offset, len);
  ssize_t n = real_pwrite(fd, bytes, len, offset);
  if (path_len && n > 0 && (fcntl(fd, F_GETFL) & O_DSYNC)) note('d', fd, path, path_len, writes, offset, (size_t)n);
  pthread_mutex_unlock(&lock);
  return n;
}
ssize_t pwrite64(int fd, const void *bytes, size_t len, off_t offset) { return pwrite(fd, bytes, len, offset); }

/* Several buffers are written one by one; the result is the sum. */
ssize_t pwritev(int fd, const struct iovec *parts, int count, off_t offset) {
  ssize_t sum = 0;
  for (int i = 0; i < count; i++) {
    ssize_t n = pwrite(fd, parts[i].iov_base, parts[i].iov_len, offset + sum);
    if (n < 0) return sum > 0 ? sum : n;
    sum += n;
    if ((size_t)n < parts[i].iov_len) break;
  }
  return sum;
}
ssize_t pwritev64(int fd, const struct iovec *parts, int count, off_t offset) { return pwritev(fd, parts, count, offset); }

ssize_t write(int fd, const void *bytes, size_t len) {
  static ssize_t (*real)(int, const void *, size_t);
  char path[4096];
  pthread_mutex_lock(&lock);
  if (!real) real = (ssize_t(*)(int, const void *, size_t))dlsym(RTLD_NEXT, "write");
  size_t path_len = data_file(fd, path, sizeof path);
  if (path_len) {
    struct stat what;
    off_t offset = fcntl(fd, F_GETFL) & O_APPEND ? (fstat(fd, &what) == 0 ? what.st_size : 0) : lseek(fd, 0, SEEK_CUR);
    note('w', fd, path, path_len, ++writes, offset < 0 ? 0 : offset, len);
  }
  ssize_t n = real(fd, bytes, len);
  pthread_mutex_unlock(&lock);
  return n;
}

static int synced(int fd, const char *name) {
  char path[4096];
  int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, name);
  pthread_mutex_lock(&lock);
  size_t path_len = data_file(fd, path, sizeof path);
  unsigned long long covered = writes;
  pthread_mutex_unlock(&lock);
  int result = real(fd);
  if (result == 0 && path_len) {
    pthread_mutex_lock(&lock);
    note('s', fd, path, path_len, covered, 0, 0);
    pthread_mutex_unlock(&lock);
  }
  return result;
}

int fsync(int fd) { return synced(fd, "fsync"); }
int fdatasync(int fd) { return synced(fd, "fdatasync"); }
