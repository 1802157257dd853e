/* A plugin with one of everything, run natively over the bytes that the host would write. */
#define QUERN_MANIFEST "name" : "boost", "version" : "1.0.0"
#define QUERN_COLUMNS(X) X(priority, i64, "priority") X(attempts, u32, "attempts") X(tenant, str, "meta_str:tenant")
#define QUERN_CONTEXT(X) X(warm, str, "warm") X(zone, i64, "zone")
#define QUERN_COUNTERS(X) X(seen, "seen") X(other, "other")
#include "../quern.h"

static quern_u32 vip;
static quern_f64 bonus;

static const char *plugin_init(quern_value config) {
    quern_value key, value;
    quern_u32 at = 0;
    if (quern_truth(quern_get(config, "refuse"), 0)) return "told to refuse";
    while (quern_next(quern_get(config, "bonuses"), &at, &key, &value)) {
        vip = quern_intern_value(key);
        bonus = quern_number(value, 0);
    }
    return 0;
}

static void plugin_score(const quern_batch *b, quern_f64 *scores) {
    for (quern_u32 i = 0; i < b->rows; i++) {
        scores[i] = (quern_f64)priority_of(b)[i] - attempts_of(b)[i];
        if (!tenant_valid(b)[i]) scores[i] = QUERN_SKIP;
        if (tenant_of(b)[i] == vip) scores[i] += bonus;
        if (tenant_of(b)[i] == warm_of(b)) scores[i] += 10;
        if (zone_given(b)) scores[i] += (quern_f64)zone_of(b);
        seen_add(1);
    }
    if (priority_valid(b)) quern_log(QUERN_ERROR, "priority may be absent?");
}

#include "../quern_test.h"

static int failures;
#define CHECK(that)                                                                       \
    do {                                                                                  \
        if (!(that)) failures++, fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #that); \
    } while (0)

static quern_value json(const char *text) { return (quern_value){text, (quern_u32)strlen(text)}; }

int main(void) {
    CHECK(qt_init("{\"refuse\":true}") == 1 && strcmp(qt.line, "3 told to refuse") == 0);
    CHECK(qt_init("{\"bonuses\":{\"acme\":1e2},\"refuse\":false}") == 0 && bonus == 100);

    qt_batch *b = qt_new(4, 7, 9);
    qt_i64(b, QUERN_AT_priority, (quern_i64[]){1, 2, 3, -4});
    qt_u32(b, QUERN_AT_attempts, (quern_u32[]){0, 1, 0, 0});
    qt_str(b, QUERN_AT_tenant, (const char *[]){"acme", "other", "third", 0});
    const double *got = qt_score(b);
    CHECK(got && got[0] == 101 && got[1] == 1 && got[2] == 3 && got[3] != got[3]);
    qt_str(b, QUERN_AT_warm, (const char *[]){"third"});
    qt_i64(b, QUERN_AT_zone, (quern_i64[]){-1000});
    got = qt_score(b);
    CHECK(got && got[0] == -899 && got[1] == -999 && got[2] == -987);
    CHECK(qt.counters[0] == 8 && qt.counters[1] == 0);

    /* A column of another type than the manifest's table has for it is a fault, at the first batch. */
    quern_checked = 0;
    *qt_word(b, 64 + QUERN_AT_attempts * 16 + 4) = QUERN_TYPE_i64;
    CHECK(qt_score(b) == 0 && strcmp(qt.line, "3 attempts") == 0);
    free(b);

    char text[8];
    CHECK(quern_str(vip, text, 2) == 4 && memcmp(text, "ac", 2) == 0 && quern_str(99, text, 8) == -1);

    /* Configurations: values that are there come out, with escapes resolved; missing ones do not. */
    quern_value v = json("{\"a\":-1.5e3,\"b\":true,\"c\":{\"d\":\"x,}\\\"\\\\\\u00e9\\ud83d\\ude00\\n\",\"f\":12.25},\"g\":[1,[2]],\"h\":\"\",\"i\":1e-07}");
    CHECK(quern_number(quern_get(v, "a"), 0) == -1500 && quern_truth(quern_get(v, "b"), 0) == 1);
    CHECK(quern_number(quern_get(quern_get(v, "c"), "f"), 0) == 12.25 && quern_number(quern_get(v, "i"), 0) == 1e-7);
    CHECK(quern_get(v, "d").size == 0 && quern_number(quern_get(v, "d"), 5) == 5 && quern_truth(quern_get(v, "a"), 1) == 1);
    CHECK(quern_number(quern_get(v, "g"), 5) == 5 && quern_get(json("{}"), "a").size == 0 && quern_get(json(""), "a").size == 0);
    CHECK(quern_intern_value(quern_get(quern_get(v, "c"), "d")) == qt_id("x,}\"\\\xc3\xa9\xf0\x9f\x98\x80\n", 12));
    CHECK(quern_intern_value(quern_get(v, "b")) == 0);
    return failures != 0;
}
