/* The guest SDK for C, for scoring plugins of Quern. One header; clang and wasm-ld 14 or newer; no libc.
 *
 *     #define QUERN_MANIFEST "name": "deadline-first", "version": "1.0.0"
 *     #define QUERN_COLUMNS(X) \
 *         X(priority, i64, "priority") \
 *         X(deadline, i64, "meta_i64:deadline_ms")
 *     #include "quern.h"
 *
 *     static const char *plugin_init(quern_value config) { (void)config; return 0; }
 *
 *     static void plugin_score(const quern_batch *b, quern_f64 *scores) {
 *         const quern_i64 *priority = priority_of(b), *deadline = deadline_of(b);
 *         const quern_u8 *known = deadline_valid(b);
 *         for (quern_u32 i = 0; i < b->rows; i++) {
 *             quern_i64 left = deadline[i] - b->now;
 *             scores[i] = (quern_f64)priority[i] + (known[i] ? 1e6 / (quern_f64)(left > 1 ? left : 1) : 0);
 *         }
 *     }
 *
 * Built with (clang finds wasm-ld beside itself; the default stack of 64 KiB or more is cut to 16)
 *
 *     clang --target=wasm32 -O3 -msimd128 -mbulk-memory -ffreestanding -nostdlib -Wl,--no-entry -Wl,-zstack-size=16384 -o x.wasm x.c
 *
 * it is the module, manifest included. Declare before the include:
 *
 *     QUERN_MANIFEST     the members of the manifest but for abi, columns, context and counters, as JSON without the braces
 * QUERN_COLUMNS(X) X(name, i64|u32|str, "column") for the columns that are read of each candidate QUERN_CONTEXT(X) X(name, i64|str, "key")
 * for the keys that are read of the reservation's context; optional QUERN_COUNTERS(X) X(name, "counter") for numbers that the host adds up;
 * optional
 *
 * For each column there are name_of(b), one value per candidate, 0 where it is absent, and name_valid(b), one byte per candidate,
 * 0 where a meta column lacks the value (a null pointer for other columns). For a context key there are name_of(b), the value,
 * and name_given(b). For a counter there is name_add(v). Values of str are ids: equal ids are equal strings, in all string
 * columns of the batch; 0 is absent.
 */
#ifndef QUERN_H
#define QUERN_H

#ifndef QUERN_MANIFEST
#error "define QUERN_MANIFEST and QUERN_COLUMNS before the include: the head of this file shows how"
#endif
#ifndef QUERN_CONTEXT
#define QUERN_CONTEXT(X)
#endif
#ifndef QUERN_COUNTERS
#define QUERN_COUNTERS(X)
#endif

typedef __UINT8_TYPE__ quern_u8;
typedef __UINT16_TYPE__ quern_u16;
typedef __INT32_TYPE__ quern_i32;
typedef __UINT32_TYPE__ quern_u32;
typedef __INT64_TYPE__ quern_i64;
typedef __UINT64_TYPE__ quern_u64;
typedef double quern_f64;
typedef __SIZE_TYPE__ quern_size;

/* One call's candidates. The batch, and all that it leads to, is valid during the call only. */
typedef struct {
    quern_u8 *base;
    quern_u32 rows;  /* candidates */
    quern_u32 want;  /* chunks that will be taken */
    quern_u32 flags; /* QUERN_DRY_RUN, QUERN_SHADOW */
    quern_i64 now;   /* milliseconds since 1970; it does not move during the call */
    quern_u64 seed;  /* the only source of chance: the same batch scored again has the same */
} quern_batch;

#define QUERN_DRY_RUN 1u /* the scores are not acted on */
#define QUERN_SHADOW 2u  /* they are only compared with those of another version */

/* The score of a candidate that is to be passed over in this window. */
#define QUERN_SKIP __builtin_nan("")

/* A value of the configuration, as canonical JSON. The host has checked it against the manifest's schema. */
typedef struct {
    const char *text;
    quern_u32 size; /* 0: not there */
} quern_value;

/* The plugin's own two functions. plugin_init runs once per instance, before any batch; a text that it returns refuses the configuration,
 * and people see it. plugin_score writes one score per candidate: larger goes first. */
static const char *plugin_init(quern_value config);
static void plugin_score(const quern_batch *b, quern_f64 *scores);

enum { QUERN_DEBUG, QUERN_INFO, QUERN_WARN, QUERN_ERROR };

#ifdef __wasm__
#define QUERN_IMPORT(name) __attribute__((import_module("quern_v1"), import_name(name)))
#define QUERN_EXPORT(name) __attribute__((export_name(name)))
#else /* natively quern_test.h is the host */
#define QUERN_IMPORT(name)
#define QUERN_EXPORT(name)
#endif

QUERN_IMPORT("log") void quern_host_log(quern_i32 level, const char *text, quern_u32 size);
QUERN_IMPORT("log_enabled") quern_i32 quern_host_log_enabled(quern_i32 level);
QUERN_IMPORT("metric_add") void quern_host_metric_add(quern_u32 id, quern_f64 v);
QUERN_IMPORT("intern") quern_u32 quern_host_intern(quern_u32 column, const char *text, quern_u32 size);
QUERN_IMPORT("str") quern_i32 quern_host_str(quern_u32 id, char *buf, quern_u32 size);

#define QUERN_UNUSED __attribute__((unused))

/* Writes one line to the plugin's log. The host keeps 1 KiB of it and 32 lines per batch. */
QUERN_UNUSED static void quern_log(int level, const char *text) {
    quern_u32 n = 0;
    while (text[n]) n++;
    quern_host_log(level, text, n);
}

/* Whether the host keeps lines of that level; if not, there is no need to build them. */
QUERN_UNUSED static int quern_log_enabled(int level) { return quern_host_log_enabled(level) != 0; }

/* Copies the string of an id into buf, as much as fits, and gives its whole length (at most 1024), -1 when the id is not known. */
QUERN_UNUSED static quern_i32 quern_str(quern_u32 id, char *buf, quern_u32 size) { return quern_host_str(id, buf, size); }

/* ---- columns ---- */

#define QUERN_VALUE_i64 quern_i64
#define QUERN_VALUE_u32 quern_u32
#define QUERN_VALUE_str quern_u32
#define QUERN_TYPE_i64 1
#define QUERN_TYPE_u32 2
#define QUERN_TYPE_str 4

#define QUERN_INDEX(name, type, from) QUERN_AT_##name,
#define QUERN_COUNT(name, counted) QUERN_COUNTER_##name,
enum { QUERN_COLUMNS(QUERN_INDEX) QUERN_CONTEXT(QUERN_INDEX) QUERN_COLUMN_COUNT };
enum { QUERN_COUNTERS(QUERN_COUNT) QUERN_COUNTER_COUNT };

static inline quern_u32 quern_word(const quern_u8 *at) { return *(const quern_u32 *)at; }

static inline quern_u32 quern_field(const quern_batch *b, quern_u32 column, quern_u32 field) {
    return quern_word(b->base + quern_word(b->base + 16) + column * 16 + field);
}

static inline const quern_u8 *quern_valid(const quern_batch *b, quern_u32 column) {
    quern_u32 at = quern_field(b, column, 8);
    return at ? b->base + at : (const quern_u8 *)0;
}

#define QUERN_COLUMN(name, type, from)                                                                            \
    QUERN_UNUSED static inline const QUERN_VALUE_##type *name##_of(const quern_batch *b) {                        \
        return (const QUERN_VALUE_##type *)(b->base + quern_field(b, QUERN_AT_##name, 0));                        \
    }                                                                                                             \
    QUERN_UNUSED static inline const quern_u8 *name##_valid(const quern_batch *b) { return quern_valid(b, QUERN_AT_##name); }
QUERN_COLUMNS(QUERN_COLUMN)

#define QUERN_SINGLE(name, type, from)                                                                            \
    QUERN_UNUSED static inline QUERN_VALUE_##type name##_of(const quern_batch *b) {                               \
        return *(const QUERN_VALUE_##type *)(b->base + quern_field(b, QUERN_AT_##name, 0));                       \
    }                                                                                                             \
    QUERN_UNUSED static inline int name##_given(const quern_batch *b) { return *quern_valid(b, QUERN_AT_##name) != 0; }
QUERN_CONTEXT(QUERN_SINGLE)

#define QUERN_ADD(name, counted) \
    QUERN_UNUSED static inline void name##_add(quern_f64 v) { quern_host_metric_add(QUERN_COUNTER_##name, v); }
QUERN_COUNTERS(QUERN_ADD)

#define QUERN_TYPE(name, type, from) QUERN_TYPE_##type,
#define QUERN_FROM(name, type, from) from,
static const quern_u16 quern_types[] = {QUERN_COLUMNS(QUERN_TYPE) QUERN_CONTEXT(QUERN_TYPE) 0};
static const char *const quern_names[] = {QUERN_COLUMNS(QUERN_FROM) QUERN_CONTEXT(QUERN_FROM) 0};

/* The id that every string column will carry for the text, for the life of the instance; only in plugin_init. 0 means that the
 * dictionary is full (4,096 strings) or the plugin declares no string column, and equals no string. */
QUERN_UNUSED static quern_u32 quern_intern(const char *text, quern_u32 size) {
    for (quern_u32 i = 0; i < QUERN_COLUMN_COUNT; i++)
        if (quern_types[i] == QUERN_TYPE_str) return quern_host_intern(i, text, size);
    return 0;
}

/* ---- configuration ---- */

/* Cuts the value off that text begins with. Canonical JSON has no spaces. */
QUERN_UNUSED static quern_value quern_cut(const char *text, const char *end) {
    quern_u32 depth = 0, quoted = 0;
    const char *at = text;
    for (; at < end; at++) {
        char c = *at;
        if (c == '\\') at++;
        else if (c == '"') quoted = !quoted;
        else if (quoted) continue;
        else if (c == '{' || c == '[') depth++;
        else if (depth == 0 && (c == '}' || c == ']' || c == ',' || c == ':')) break;
        else if (c == '}' || c == ']') depth--;
    }
    return (quern_value){text, (quern_u32)((at < end ? at : end) - text)};
}

/* The next key and value of an object. *at is 0 at first; the answer is 0 behind the last one. A key is a string. */
QUERN_UNUSED static int quern_next(quern_value object, quern_u32 *at, quern_value *key, quern_value *value) {
    const char *end = object.text + object.size;
    if (object.size < 2 || object.text[0] != '{') return 0;
    *at += 1;
    if (*at + 1 >= object.size) return 0;
    *key = quern_cut(object.text + *at, end);
    *value = quern_cut(key->text + key->size + 1, end);
    *at = (quern_u32)(value->text + value->size - object.text);
    return 1;
}

/* The value under a key of an object; its size is 0 when there is none. The key needs no escapes. */
QUERN_UNUSED static quern_value quern_get(quern_value object, const char *wanted) {
    quern_u32 at = 0, i;
    quern_value key, value;
    while (quern_next(object, &at, &key, &value)) {
        for (i = 0; i + 2 < key.size && wanted[i] && wanted[i] == key.text[i + 1]; i++) {}
        if (i + 2 == key.size && !wanted[i]) return value;
    }
    return (quern_value){"", 0};
}

/* The number, within a unit of its last place; otherwise if there is none. */
QUERN_UNUSED static quern_f64 quern_number(quern_value v, quern_f64 otherwise) {
    const char *at = v.text, *end = v.text + v.size;
    int negative = at < end && *at == '-', scale = 0, power = 0, down = 0;
    quern_f64 n = 0, ten = 1;
    if (negative) at++;
    if (at == end || *at < '0' || *at > '9') return otherwise;
    for (; at < end && *at >= '0' && *at <= '9'; at++) n = n * 10 + (*at - '0');
    if (at < end && *at == '.')
        for (at++; at < end && *at >= '0' && *at <= '9'; at++, scale--) n = n * 10 + (*at - '0');
    if (at < end && *at == 'e') {
        down = ++at < end && *at == '-';
        if (at < end && (*at == '-' || *at == '+')) at++;
        for (; at < end; at++) power = power * 10 + (*at - '0');
    }
    for (scale += down ? -power : power; scale < 0 && ten < 1e300; scale++) ten *= 10;
    if (ten > 1) n /= ten;
    for (; scale > 0 && n < 1e308; scale--) n *= 10;
    return negative ? -n : n;
}

/* The truth value; otherwise if there is none. */
QUERN_UNUSED static int quern_truth(quern_value v, int otherwise) {
    return v.size == 4 && v.text[0] == 't' ? 1 : v.size == 5 && v.text[0] == 'f' ? 0 : otherwise;
}

static inline int quern_hex(char c) { return c <= '9' ? c - '0' : (c | 32) - 'a' + 10; }

/* The id of a string of the configuration, as quern_intern gives it. 0 when the value is no string or has over 1024 bytes. */
QUERN_UNUSED static quern_u32 quern_intern_value(quern_value v) {
    char buf[1024];
    quern_u32 n = 0, c, high = 0;
    if (v.size < 2 || v.text[0] != '"') return 0;
    for (const char *at = v.text + 1, *end = v.text + v.size - 1; at < end; at++) {
        if (n + 4 > sizeof buf) return 0;
        if (*at != '\\') {
            buf[n++] = *at;
            continue;
        }
        c = (quern_u8) * ++at;
        c = c == 'n' ? '\n' : c == 't' ? '\t' : c == 'r' ? '\r' : c == 'b' ? '\b' : c == 'f' ? '\f' : c;
        if (*at == 'u') {
            c = 0;
            for (int i = 1; i <= 4; i++) c = c << 4 | (quern_u32)quern_hex(at[i]);
            at += 4;
        }
        if (c >= 0xd800 && c < 0xdc00) {
            high = 0x10000 + ((c - 0xd800) << 10);
            continue;
        }
        if (c >= 0xdc00 && c < 0xe000) c = high + (c - 0xdc00);
        if (c < 0x80) {
            buf[n++] = (char)c;
            continue;
        }
        int more = c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
        buf[n++] = (char)(0xff80 >> more | c >> 6 * more);
        while (more--) buf[n++] = (char)(0x80 | (c >> 6 * more & 63));
    }
    return quern_intern(buf, n);
}

/* ---- what the module exports ---- */

QUERN_EXPORT("quern_init") quern_i32 quern_init(const char *config, quern_u32 size) {
    const char *why = plugin_init((quern_value){config, size});
    if (!why) return 0;
    quern_log(QUERN_ERROR, why);
    return 1;
}

/* A column that is declared with the wrong type would be misread. This check finds it at the first batch. */
static int quern_checked;
static int quern_check(const quern_batch *b) {
    for (quern_u32 i = 0; i < QUERN_COLUMN_COUNT; i++)
        if ((quern_field(b, i, 4) & 0xffff) != quern_types[i]) {
            quern_log(QUERN_ERROR, "this column is declared with a type that it does not have:");
            quern_log(QUERN_ERROR, quern_names[i]);
            return 0;
        }
    return quern_checked = 1;
}

QUERN_EXPORT("quern_score") quern_i32 quern_score(quern_u8 *region) {
    quern_batch b = {region, quern_word(region + 8), quern_word(region + 40), quern_word(region + 44), *(quern_i64 *)(region + 24), *(quern_u64 *)(region + 32)};
    if (!quern_checked && !quern_check(&b)) return 3;
    plugin_score(&b, (quern_f64 *)(region + quern_word(region + 20)));
    return 0;
}

#ifdef __wasm__
QUERN_EXPORT("quern_abi_1") void quern_abi_1(void) {}

extern quern_u8 __heap_base;

/* Room for the host, behind the module's own data. Nothing is ever given back. */
QUERN_EXPORT("quern_alloc") quern_u8 *quern_alloc(quern_u32 size) {
    static quern_u32 next;
    if (!next) next = (quern_u32)&__heap_base;
    quern_u32 from = (next + 15) & ~15u, have = __builtin_wasm_memory_size(0) * 65536u;
    if (from + size > have && __builtin_wasm_memory_grow(0, (from + size - have) / 65536 + 1) == (quern_size)-1) return 0;
    next = from + size;
    return (quern_u8 *)from;
}

/* The compiler calls these by itself, for copies of structs and for loops that it recognises. */
#define QUERN_MEM(name) __attribute__((weak, no_builtin(#name)))
QUERN_MEM(memset) void *memset(void *to, int c, quern_size n) {
    for (quern_u8 *at = to; n--;) *at++ = (quern_u8)c;
    return to;
}
QUERN_MEM(memcpy) void *memcpy(void *restrict to, const void *restrict from, quern_size n) {
    const quern_u8 *source = from;
    for (quern_u8 *at = to; n--;) *at++ = *source++;
    return to;
}
QUERN_MEM(memmove) void *memmove(void *to, const void *from, quern_size n) {
    quern_u8 *at = to;
    const quern_u8 *source = from;
    if (at <= source) {
        while (n--) *at++ = *source++;
    } else {
        while (n--) at[n] = source[n];
    }
    return to;
}
QUERN_MEM(memcmp) int memcmp(const void *a, const void *b, quern_size n) {
    const quern_u8 *x = a, *y = b;
    for (; n--; x++, y++)
        if (*x != *y) return *x - *y;
    return 0;
}

/* The manifest, as a section of the module. A text becomes a string of C, and then one of the assembler. The macro quern_comma writes
 * nothing before the first element of a list. */
#define QUERN_TEXT_(...) #__VA_ARGS__
#define QUERN_TEXT(...) QUERN_TEXT_(__VA_ARGS__)
#define QUERN_ASCII(literal) ".ascii " QUERN_TEXT_(literal) "\n"
#define QUERN_LIST ".macro quern_comma\n.endm\n"
#define QUERN_COMMA "quern_comma\n.purgem quern_comma\n.macro quern_comma\n.ascii \",\"\n.endm\n"
#define QUERN_LIST_END ".purgem quern_comma\n"
#define QUERN_COLUMN_TEXT(name, type, from) QUERN_COMMA ".ascii \"\\\"" from "\\\"\"\n"
#define QUERN_CONTEXT_TEXT(name, type, from) QUERN_COMMA ".ascii \"{\\\"key\\\":\\\"" from "\\\",\\\"type\\\":\\\"" #type "\\\"}\"\n"
#define QUERN_COUNTER_TEXT(name, counted) QUERN_COMMA ".ascii \"\\\"" counted "\\\"\"\n"
__asm__(".section .custom_section.quern.manifest,\"\",@\n"
        QUERN_ASCII("{\"abi\":1,\"columns\":[") QUERN_LIST QUERN_COLUMNS(QUERN_COLUMN_TEXT) QUERN_LIST_END
        QUERN_ASCII("],\"context\":[") QUERN_LIST QUERN_CONTEXT(QUERN_CONTEXT_TEXT) QUERN_LIST_END
        QUERN_ASCII("],\"counters\":[") QUERN_LIST QUERN_COUNTERS(QUERN_COUNTER_TEXT) QUERN_LIST_END
        QUERN_ASCII("],")
        ".ascii " QUERN_TEXT(QUERN_TEXT(QUERN_MANIFEST)) "\n"
        QUERN_ASCII("}")
        ".text\n");
#endif

#endif
