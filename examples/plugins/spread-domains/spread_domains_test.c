/* The scorer that the server runs in its sandbox, run natively. */
#include "spread_domains.c"
#include "quern_test.h"

static int failures;
#define CHECK(that)                                                                       \
    do {                                                                                  \
        if (!(that)) failures++, fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #that); \
    } while (0)

int main(void) {
    CHECK(qt_init("{\"local\":3,\"spread\":10}") == 0);
    qt_batch *b = qt_new(5, 0, 5);
    qt_str(b, QUERN_AT_zone, (const char *[]){"a", "a", "b", 0, "c"});
    qt_u32(b, QUERN_AT_busy, (quern_u32[]){1, 1, 4, 0, 0});
    qt_u32(b, QUERN_AT_own, (quern_u32[]){9, 9, 9, 2, 9});
    qt_str(b, QUERN_AT_here, (const char *[]){"c"});
    for (int round = 0; round < 2; round++) { /* what one batch counted does not reach the next */
        const double *s = qt_score(b);
        CHECK(s[4] == 3);   /* the consumer's own zone, with nothing in flight */
        CHECK(s[0] == -10); /* one is in flight there */
        CHECK(s[1] == -20); /* and the candidate before would be a second */
        CHECK(s[3] == -20); /* no zone: its own two */
        CHECK(s[2] == -40);
    }
    CHECK(qt.counters[0] == 2);
    stamp = ~0u; /* the stamps start over */
    CHECK(qt_score(b)[1] == -20 && stamp == 1);
    free(b);
    return failures != 0;
}
