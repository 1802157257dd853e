/* Runs a plugin in C natively: include the plugin's source, then this, and write main. It lays batches out as the host does and
 * keeps the dictionary, the counters and the last line of the log. It needs libc and a machine that is little-endian.
 *
 *     qt_init("{\"spread\":10}");
 *     qt_batch *b = qt_new(2, 1700000000000, 1);
 *     qt_i64(b, QUERN_AT_priority, (quern_i64[]){1, 2});
 *     qt_str(b, QUERN_AT_zone, (const char *[]){"a", 0});
 *     const double *scores = qt_score(b);
 *     free(b);
 */
#ifndef QUERN_TEST_H
#define QUERN_TEST_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct {
    char *words[256]; /* id k is words[k-1] */
    quern_u32 count;
    double counters[16];
    char line[1032]; /* level, space, text */
} qt;

static quern_u32 qt_id(const char *text, quern_u32 size) {
    for (quern_u32 i = 0; i < qt.count; i++)
        if (strlen(qt.words[i]) == size && memcmp(qt.words[i], text, size) == 0) return i + 1;
    if (qt.count == sizeof qt.words / sizeof *qt.words) return 0;
    qt.words[qt.count] = calloc(size + 1, 1);
    memcpy(qt.words[qt.count], text, size);
    return ++qt.count;
}

void quern_host_log(quern_i32 level, const char *text, quern_u32 size) { snprintf(qt.line, sizeof qt.line, "%d %.*s", level, (int)size, text); }
quern_i32 quern_host_log_enabled(quern_i32 level) { return level >= QUERN_DEBUG; }
void quern_host_metric_add(quern_u32 id, quern_f64 v) {
    if (id < QUERN_COUNTER_COUNT && v >= 0 && v <= 1e308) qt.counters[id] += v;
}
quern_u32 quern_host_intern(quern_u32 column, const char *text, quern_u32 size) { return column < QUERN_COLUMN_COUNT ? qt_id(text, size) : 0; }
quern_i32 quern_host_str(quern_u32 id, char *buf, quern_u32 size) {
    if (id == 0 || id > qt.count) return -1;
    quern_u32 n = (quern_u32)strlen(qt.words[id - 1]);
    memcpy(buf, qt.words[id - 1], n < size ? n : size);
    return (quern_i32)n;
}

/* A batch under construction. Candidate columns begin as 0 and present, context keys as absent. */
typedef struct {
    quern_u32 rows, scores;
    _Alignas(16) quern_u8 bytes[1 << 20];
} qt_batch;

static quern_u32 *qt_word(qt_batch *b, quern_u32 at) { return (quern_u32 *)(b->bytes + at); }
static quern_u32 qt_at(qt_batch *b, quern_u32 column, quern_u32 field) { return *qt_word(b, 64 + column * 16 + field); }
static quern_u32 qt_rows(qt_batch *b, quern_u32 column) { return qt_at(b, column, 4) >> 16 & 2 ? 1 : b->rows; }

/* Hands a configuration in canonical form to plugin_init; 0 when it takes it. */
QUERN_UNUSED static quern_i32 qt_init(const char *config) { return quern_init(config, (quern_u32)strlen(config)); }

#define QUERN_ZERO(name, type, from) 0,
#define QUERN_ONE(name, type, from) 1,

/* A batch of n candidates (at most 1,000) at a time in milliseconds since 1970, of which want are wanted. Free it. */
QUERN_UNUSED static qt_batch *qt_new(quern_u32 n, quern_i64 now, quern_u32 want) {
    static const quern_u8 single[] = {QUERN_COLUMNS(QUERN_ZERO) QUERN_CONTEXT(QUERN_ONE) 0};
    qt_batch *b = aligned_alloc(_Alignof(qt_batch), sizeof *b);
    quern_u32 at = 64 + QUERN_COLUMN_COUNT * 16;
    memset(b, 0, sizeof *b);
    memcpy(b->bytes, "QRN1\x40", 5);
    *qt_word(b, 8) = *qt_word(b, 48) = b->rows = n;
    *qt_word(b, 12) = QUERN_COLUMN_COUNT;
    *qt_word(b, 16) = 64;
    *(quern_i64 *)(b->bytes + 24) = now;
    *qt_word(b, 40) = want;
    for (quern_u32 i = 0; i < QUERN_COLUMN_COUNT; i++) {
        int nullable = single[i] || strncmp(quern_names[i], "meta_", 5) == 0;
        quern_u32 rows = single[i] ? 1 : n;
        *qt_word(b, 64 + i * 16) = at;
        *qt_word(b, 68 + i * 16) = quern_types[i] | (quern_u32)(nullable | single[i] << 1) << 16;
        at = (at + rows * 8 + 15) & ~15u;
        if (!nullable) continue;
        *qt_word(b, 72 + i * 16) = at;
        memset(b->bytes + at, !single[i], rows);
        at = (at + rows + 15) & ~15u;
    }
    *qt_word(b, 20) = b->scores = at;
    for (quern_u32 i = 0; i < n; i++) *(quern_u64 *)(b->bytes + at + i * 8) = 0x7ff80000314e5251;
    return b;
}

/* Marks one candidate's value as absent or present, or the context's with row 0. */
QUERN_UNUSED static void qt_valid(qt_batch *b, quern_u32 column, quern_u32 row, int present) {
    quern_u32 at = qt_at(b, column, 8);
    if (at) b->bytes[at + row] = present != 0;
}

/* Sets a column: one value per candidate, one for a context key. */
QUERN_UNUSED static void qt_i64(qt_batch *b, quern_u32 column, const quern_i64 *values) {
    memcpy(b->bytes + qt_at(b, column, 0), values, qt_rows(b, column) * 8);
    for (quern_u32 i = 0; i < qt_rows(b, column); i++) qt_valid(b, column, i, 1);
}
QUERN_UNUSED static void qt_u32(qt_batch *b, quern_u32 column, const quern_u32 *values) { memcpy(b->bytes + qt_at(b, column, 0), values, qt_rows(b, column) * 4); }

/* Sets a column of strings; a null pointer is an absent one. */
QUERN_UNUSED static void qt_str(qt_batch *b, quern_u32 column, const char *const *values) {
    for (quern_u32 i = 0; i < qt_rows(b, column); i++) {
        *qt_word(b, qt_at(b, column, 0) + i * 4) = values[i] ? qt_id(values[i], (quern_u32)strlen(values[i])) : 0;
        qt_valid(b, column, i, values[i] != 0);
    }
}

/* Scores the batch; a null pointer when the plugin faults. */
QUERN_UNUSED static const double *qt_score(qt_batch *b) { return quern_score(b->bytes) ? 0 : (const double *)(b->bytes + b->scores); }

#endif
