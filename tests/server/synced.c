/* Preloaded into a server: records, in the file named by QUARRY_SYNC_LOG, how much of each file a finished fsync or fdatasync
   covers. A loss of power may remove the rest. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static void note(int fd, long long size) {
  static int out = -1;
  char link[64], path[4096], line[4200];
  if (out < 0) {
    const char *name = getenv("QUARRY_SYNC_LOG");
    if (!name || (out = open(name, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600)) < 0) return;
  }
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t n = readlink(link, path, sizeof path - 1);
  if (n <= 0) return;
  path[n] = 0;
  int length = snprintf(line, sizeof line, "%lld %s\n", size, path);
  if (write(out, line, (size_t)length) != length) abort();
}

static int synced(int fd, const char *name) {
  struct stat before;
  int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, name);
  /* The size before the call: data appended during it may not be covered. A journal file is longer than its content, so if
     the file is written through this descriptor, the position of the next append counts. */
  int known = fstat(fd, &before) == 0;
  off_t written = lseek(fd, 0, SEEK_CUR);
  int result = real(fd);
  if (result == 0 && known && S_ISREG(before.st_mode)) note(fd, written > 0 ? (long long)written : (long long)before.st_size);
  return result;
}

int fsync(int fd) { return synced(fd, "fsync"); }
int fdatasync(int fd) { return synced(fd, "fdatasync"); }
