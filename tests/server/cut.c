/* Preloaded into a server: cuts its connections to given ports of this machine. QUARRY_CUT names a file with one byte for each port of
   QUARRY_CUT_PORTS (separated by commas); while the byte is not '0', connecting to that port and using a connection to it fail as after a
   reset. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#define PORTS_MAX 8
static volatile const char *flags;
static int ports[PORTS_MAX], count;

__attribute__((constructor)) static void begin(void) {
  const char *path = getenv("QUARRY_CUT"), *list = getenv("QUARRY_CUT_PORTS");
  if (!path || !list) return;
  for (const char *at = list; at && *at && count < PORTS_MAX; at = strchr(at, ','), at = at ? at + 1 : NULL) ports[count++] = atoi(at);
  int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return;
  void *mapped = mmap(NULL, PORTS_MAX, PROT_READ, MAP_SHARED, file, 0);
  if (mapped != MAP_FAILED) flags = mapped;
  close(file);
}

static int any(void) {
  for (int n = 0; flags && n < count; n++)
    if (flags[n] != '0') return 1;
  return 0;
}

static int is_cut(const struct sockaddr *address) {
  if (!address || address->sa_family != AF_INET) return 0;
  int port = ntohs(((const struct sockaddr_in *)address)->sin_port);
  for (int n = 0; n < count; n++)
    if (ports[n] == port && flags[n] != '0') return 1;
  return 0;
}

static int peer_is_cut(int fd) {
  struct sockaddr_storage peer;
  socklen_t length = sizeof peer;
  return any() && getpeername(fd, (struct sockaddr *)&peer, &length) == 0 && is_cut((struct sockaddr *)&peer);
}

int connect(int fd, const struct sockaddr *address, socklen_t length) {
  static int (*real)(int, const struct sockaddr *, socklen_t);
  if (!real) real = (int (*)(int, const struct sockaddr *, socklen_t))dlsym(RTLD_NEXT, "connect");
  if (any() && is_cut(address)) return errno = ECONNREFUSED, -1;
  return real(fd, address, length);
}

#define CUT(type, name, parameters, arguments) \
  type name parameters { \
    static type (*real) parameters; \
    if (!real) real = (type (*) parameters)dlsym(RTLD_NEXT, #name); \
    if (peer_is_cut(fd)) return errno = ECONNRESET, -1; \
    return real arguments; \
  }
CUT(ssize_t, recv, (int fd, void *to, size_t size, int how), (fd, to, size, how))
CUT(ssize_t, send, (int fd, const void *from, size_t size, int how), (fd, from, size, how))
CUT(ssize_t, recvmsg, (int fd, struct msghdr *message, int how), (fd, message, how))
CUT(ssize_t, sendmsg, (int fd, const struct msghdr *message, int how), (fd, message, how))
CUT(ssize_t, readv, (int fd, const struct iovec *parts, int number), (fd, parts, number))
CUT(ssize_t, writev, (int fd, const struct iovec *parts, int number), (fd, parts, number))
