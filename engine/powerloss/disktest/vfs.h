// The door between disk.go and vfs.c.
#include <stddef.h>
#include <stdint.h>

enum { disk_write = 1, disk_truncate, disk_sync, disk_delete, disk_marked, disk_files = 1024 };

int disk_register(void);
void disk_begin(const char *folder);
void disk_mark(int64_t n);
const void *disk_end(size_t *n);
const char *disk_name(int id);
void disk_fail(long writes, int no_room, long syncs);
void disk_break(long writes, int no_room);
void disk_gate(int closed);
void disk_await(void);
