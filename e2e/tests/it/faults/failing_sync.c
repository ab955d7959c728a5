/* Syncs that fail: loaded into the daemon and the shims it starts, in front of the C library. While the file named by
   SYNC_ORDER exists, a sync of a file whose path ends with the second word in it fails with EIO: the first time only
   ("once"), or every time ("always"). Every sync of a file of the data folder is noted in the file named by SYNC_NOTES. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int ends_with(const char *text, const char *end) {
    size_t length = strlen(text), tail = strlen(end);
    return length >= tail && strcmp(text + length - tail, end) == 0;
}

static int must_fail(const char *path) {
    const char *order = getenv("SYNC_ORDER");
    char how[16] = "", what[64] = "";
    FILE *file = order ? fopen(order, "r") : NULL;
    if (!file) return 0;
    int words = fscanf(file, "%15s %63s", how, what);
    fclose(file);
    if (words != 2 || !ends_with(path, what)) return 0;
    /* Of two threads that read the order, the one that removes it obeys it. */
    return strcmp(how, "once") != 0 || unlink(order) == 0;
}

static void note(const char *path, const char *outcome) {
    const char *notes = getenv("SYNC_NOTES"), *name = strrchr(path, '/');
    int file = notes ? open(notes, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600) : -1;
    if (file < 0) return;
    dprintf(file, "%s %s\n", name ? name + 1 : path, outcome);
    close(file);
}

static int sync_one(int fd, const char *symbol) {
    int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, symbol);
    char link[32], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    path[length < 0 ? 0 : length] = 0;
    if (must_fail(path)) {
        note(path, "EIO");
        errno = EIO;
        return -1;
    }
    int outcome = real(fd);
    if (strstr(path, "/data/obey/")) note(path, outcome ? "failed" : "ok");
    return outcome;
}

int fsync(int fd) { return sync_one(fd, "fsync"); }
int fdatasync(int fd) { return sync_one(fd, "fdatasync"); }
