/* Copyright The Tenplex Authors
 * SPDX-License-Identifier: Apache-2.0
 *
 * Loaded into a program with LD_PRELOAD: sends it a signal just before its Nth change of a file system, so that a test
 * hits the same place on every machine. Changes are writes, syncs, new folders, links, renames and removals.
 *
 * SIGNAL_AT=N SIGNAL_NUMBER=S  send signal S just before change N (the first is 0)
 * SIGNAL_COUNT=FILE            write the number of changes to FILE at exit
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

static atomic_long changes;
static long signal_at = -1;
static int signal_number = SIGKILL;

__attribute__((constructor)) static void begin(void) {
  const char* at = getenv("SIGNAL_AT");
  const char* number = getenv("SIGNAL_NUMBER");
  if (at) signal_at = atol(at);
  if (number) signal_number = atoi(number);
}

__attribute__((destructor)) static void end(void) {
  const char* path = getenv("SIGNAL_COUNT");
  FILE* file = path ? fopen(path, "w") : NULL;
  if (!file) return;
  fprintf(file, "%ld\n", atomic_load(&changes));
  fclose(file);
}

/* Returns when the program has taken the signal, if it waits for signals in a thread of its own. */
static void change(void) {
  if (atomic_fetch_add(&changes, 1) != signal_at) return;
  kill(getpid(), signal_number);
  sigset_t pending;
  while (sigpending(&pending) == 0 && sigismember(&pending, signal_number) == 1) usleep(1000);
}

#define CHANGE(result, name, parameters, arguments) \
  result name parameters { \
    static result(*next) parameters; \
    if (!next) next = (result(*) parameters)dlsym(RTLD_NEXT, #name); \
    change(); \
    return next arguments; \
  }

CHANGE(ssize_t, pwrite, (int file, const void* data, size_t size, off_t at), (file, data, size, at))
CHANGE(ssize_t, pwrite64, (int file, const void* data, size_t size, off64_t at), (file, data, size, at))
CHANGE(ssize_t, pwritev, (int file, const struct iovec* parts, int count, off_t at), (file, parts, count, at))
CHANGE(ssize_t, pwritev64, (int file, const struct iovec* parts, int count, off64_t at), (file, parts, count, at))
CHANGE(int, fsync, (int file), (file))
CHANGE(int, mkdir, (const char* path, mode_t mode), (path, mode))
CHANGE(int, link, (const char* from, const char* to), (from, to))
CHANGE(int, unlink, (const char* path), (path))
CHANGE(int, rmdir, (const char* path), (path))
CHANGE(int, rename, (const char* from, const char* to), (from, to))
CHANGE(int, chmod, (const char* path, mode_t mode), (path, mode))

/* The program calls renameat2 and openat2 through syscall(); only the first one changes something. */
long syscall(long number, ...) {
  static long (*next)(long, ...);
  if (!next) next = (long (*)(long, ...))dlsym(RTLD_NEXT, "syscall");
  va_list list;
  va_start(list, number);
  long a[6];
  for (int i = 0; i < 6; ++i) a[i] = va_arg(list, long);
  va_end(list);
  if (number == SYS_renameat2) change();
  return next(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}
