// A VFS over SQLite's own that writes down what is written, cut, synced and deleted below one folder, in the order in which it happens, and
// can have a write or a sync fail, or wait. The declarations are those of SQLite's documentation of sqlite3_vfs and sqlite3_io_methods,
// which have not changed since version 3.7.6; the two functions of SQLite are weak, as they come from another package of the program.

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "vfs.h"

typedef struct file file;
typedef struct methods {
  int version;
  int (*close)(file *);
  int (*read)(file *, void *, int, int64_t);
  int (*write)(file *, const void *, int, int64_t);
  int (*truncate)(file *, int64_t);
  int (*sync)(file *, int);
  int (*size)(file *, int64_t *);
  int (*lock)(file *, int);
  int (*unlock)(file *, int);
  int (*reserved)(file *, int *);
  int (*control)(file *, int, void *);
  int (*sector)(file *);
  int (*device)(file *);
  int (*shm_map)(file *, int, int, int, void volatile **);
  int (*shm_lock)(file *, int, int, int);
  void (*shm_barrier)(file *);
  int (*shm_unmap)(file *, int);
} methods;
struct file {
  const methods *methods;
};

typedef struct vfs vfs;
struct vfs {
  int version, file_size, max_path;
  vfs *next;
  const char *name;
  void *data;
  int (*open)(vfs *, const char *, file *, int, int *);
  int (*delete)(vfs *, const char *, int);
  void *others[14]; // of versions 1 to 3; taken over as they are
};

extern vfs *sqlite3_vfs_find(const char *) __attribute__((weak));
extern int sqlite3_vfs_register(vfs *, int) __attribute__((weak));

enum { ok = 0, full = 13, write_failed = 10 | 3 << 8, fsync_failed = 10 | 4 << 8 };

typedef struct traced {
  file base;
  int id; // -1: not below the folder
  long trace;
} traced;

static vfs *below, ours;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t gate_changed = PTHREAD_COND_INITIALIZER;
static char root[4096];
static char *names[disk_files];
static int known;
static unsigned char *buffer;
static size_t used, room;
static int tracing;
static long trace; // which one it is: a server of an earlier one that only stands still has no part in it
static long fail_write = -1, fail_sync = -1; // how many pass before all fail; -1: none does
static long break_write = -1;                // how many pass before one fails
static int failure = full, broken = full;    // what all fail with, and what that one fails with
static int gate_closed, waiting;

static file *real(file *f) { return (file *)((traced *)f + 1); }

// put writes down one operation. The mutex is held.
static void put(unsigned char kind, int id, int64_t at, int32_t n, const void *data) {
  size_t need = used + 17 + (data ? (size_t)n : 0);
  if (!tracing) return;
  if (need > room) {
    room = need * 2;
    buffer = realloc(buffer, room);
    if (!buffer) abort();
  }
  buffer[used] = kind;
  memcpy(buffer + used + 1, &id, 4);
  memcpy(buffer + used + 5, &at, 8);
  memcpy(buffer + used + 13, &n, 4);
  if (data) memcpy(buffer + used + 17, data, (size_t)n);
  used = need;
}

// named is the number of a file below the folder. The mutex is held.
static int named(const char *path) {
  if (!path || !root[0] || strncmp(path, root, strlen(root))) return -1;
  for (int i = 0; i < known; i++)
    if (!strcmp(names[i], path + strlen(root))) return i;
  if (known == disk_files) abort();
  names[known] = strdup(path + strlen(root));
  return known++;
}

// seen is the number of a file in this trace; -1: it has none. The mutex is held.
static int seen(file *f) { return ((traced *)f)->trace == trace ? ((traced *)f)->id : -1; }

// fails says whether this one of the operations counted by left fails. The mutex is held.
static int fails(long *left) {
  if (*left < 0) return 0;
  if (*left == 0) return 1;
  --*left;
  return 0;
}

static int t_close(file *f) { return real(f)->methods->close(real(f)); }
static int t_read(file *f, void *p, int n, int64_t at) { return real(f)->methods->read(real(f), p, n, at); }
static int t_size(file *f, int64_t *s) { return real(f)->methods->size(real(f), s); }
static int t_lock(file *f, int l) { return real(f)->methods->lock(real(f), l); }
static int t_unlock(file *f, int l) { return real(f)->methods->unlock(real(f), l); }
static int t_reserved(file *f, int *o) { return real(f)->methods->reserved(real(f), o); }
static int t_control(file *f, int op, void *a) { return real(f)->methods->control(real(f), op, a); }
static int t_sector(file *f) { return real(f)->methods->sector(real(f)); }
static int t_device(file *f) { return real(f)->methods->device(real(f)); }
static int t_shm_map(file *f, int a, int b, int c, void volatile **p) { return real(f)->methods->shm_map(real(f), a, b, c, p); }
static int t_shm_lock(file *f, int o, int n, int l) { return real(f)->methods->shm_lock(real(f), o, n, l); }
static void t_shm_barrier(file *f) { real(f)->methods->shm_barrier(real(f)); }
static int t_shm_unmap(file *f, int d) { return real(f)->methods->shm_unmap(real(f), d); }

// One that is written while the mutex is held is in the trace where it is on the disk.
static int t_write(file *f, const void *p, int n, int64_t at) {
  pthread_mutex_lock(&mutex);
  int id = seen(f), rc;
  if (id < 0)
    rc = real(f)->methods->write(real(f), p, n, at);
  else if (break_write >= 0 && break_write-- == 0)
    rc = broken;
  else
    rc = fails(&fail_write) ? failure : real(f)->methods->write(real(f), p, n, at);
  if (rc == ok && id >= 0) put(disk_write, id, at, n, p);
  pthread_mutex_unlock(&mutex);
  return rc;
}

static int t_truncate(file *f, int64_t size) {
  pthread_mutex_lock(&mutex);
  int id = seen(f), rc = real(f)->methods->truncate(real(f), size);
  if (rc == ok && id >= 0) put(disk_truncate, id, size, 0, 0);
  pthread_mutex_unlock(&mutex);
  return rc;
}

static int t_sync(file *f, int flags) {
  pthread_mutex_lock(&mutex);
  if (gate_closed && seen(f) >= 0) {
    waiting++;
    pthread_cond_broadcast(&gate_changed);
    while (gate_closed) pthread_cond_wait(&gate_changed, &mutex);
    waiting--;
  }
  int id = seen(f), rc = id >= 0 && fails(&fail_sync) ? fsync_failed : real(f)->methods->sync(real(f), flags);
  if (rc == ok && id >= 0) put(disk_sync, id, 0, 0, 0);
  pthread_mutex_unlock(&mutex);
  return rc;
}

static const methods wrapped = {2, t_close, t_read, t_write, t_truncate, t_sync, t_size, t_lock, t_unlock, t_reserved, t_control,
                                t_sector, t_device, t_shm_map, t_shm_lock, t_shm_barrier, t_shm_unmap};

static int t_open(vfs *v, const char *path, file *f, int flags, int *out) {
  (void)v;
  traced *t = (traced *)f;
  pthread_mutex_lock(&mutex);
  t->id = named(path);
  t->trace = trace;
  pthread_mutex_unlock(&mutex);
  int rc = below->open(below, path, real(f), flags, out);
  t->base.methods = real(f)->methods ? &wrapped : 0;
  return rc;
}

static int t_delete(vfs *v, const char *path, int sync) {
  (void)v;
  pthread_mutex_lock(&mutex);
  int id = named(path), rc = below->delete(below, path, sync);
  if (rc == ok && id >= 0) put(disk_delete, id, sync, 0, 0);
  pthread_mutex_unlock(&mutex);
  return rc;
}

int disk_register(void) {
  if (!sqlite3_vfs_find || !sqlite3_vfs_register || !(below = sqlite3_vfs_find(0))) return 1;
  ours = *below;
  ours.version = below->version < 2 ? below->version : 2;
  ours.file_size = (int)sizeof(traced) + below->file_size;
  ours.name = "powerloss";
  ours.open = t_open;
  ours.delete = t_delete;
  return sqlite3_vfs_register(&ours, 1);
}

void disk_begin(const char *folder) {
  pthread_mutex_lock(&mutex);
  for (int i = 0; i < known; i++) free(names[i]);
  known = 0;
  used = 0;
  tracing = 1;
  trace++;
  strncpy(root, folder, sizeof root - 1);
  pthread_mutex_unlock(&mutex);
}

void disk_mark(int64_t n) {
  pthread_mutex_lock(&mutex);
  put(disk_marked, 0, n, 0, 0);
  pthread_mutex_unlock(&mutex);
}

const void *disk_end(size_t *n) {
  pthread_mutex_lock(&mutex);
  tracing = 0;
  root[0] = 0;
  *n = used;
  pthread_mutex_unlock(&mutex);
  return buffer;
}

const char *disk_name(int id) { return id < known ? names[id] : 0; }

void disk_fail(long writes, int no_room, long syncs) {
  pthread_mutex_lock(&mutex);
  fail_write = writes;
  failure = no_room ? full : write_failed;
  fail_sync = syncs;
  pthread_mutex_unlock(&mutex);
}

void disk_break(long writes, int no_room) {
  pthread_mutex_lock(&mutex);
  break_write = writes;
  broken = no_room ? full : write_failed;
  pthread_mutex_unlock(&mutex);
}

void disk_gate(int closed) {
  pthread_mutex_lock(&mutex);
  gate_closed = closed;
  pthread_cond_broadcast(&gate_changed);
  pthread_mutex_unlock(&mutex);
}

void disk_await(void) {
  pthread_mutex_lock(&mutex);
  while (gate_closed && !waiting) pthread_cond_wait(&gate_changed, &mutex);
  pthread_mutex_unlock(&mutex);
}
