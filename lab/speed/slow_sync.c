/* Preloaded into a server: fdatasync and fsync take QUARRY_SYNC_US microseconds and do nothing
   else, as a device that is that fast would look to the server's threads. For directories on tmpfs
   only. */
#include <stdlib.h>
#include <unistd.h>

static int wait_us(void) {
    static int us = -1;
    if (us < 0)
        us = getenv("QUARRY_SYNC_US") ? atoi(getenv("QUARRY_SYNC_US")) : 0;
    if (us > 0)
        usleep((useconds_t)us);
    return 0;
}

int fsync(int fd) {
    return (void)fd, wait_us();
}
int fdatasync(int fd) {
    return (void)fd, wait_us();
}
