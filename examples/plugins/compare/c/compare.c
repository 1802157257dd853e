/* The comparison's scorer in C: the same arithmetic as in ../go, ../rust and ../assemblyscript. */
#define QUERN_MANIFEST "name" : "compare-c", "version" : "1.0.0", "license" : "Apache-2.0"
#define QUERN_COLUMNS(X)                \
    X(priority, i64, "priority")        \
    X(age, i64, "age_ms")               \
    X(attempts, u32, "attempts")        \
    X(available, u32, "available")      \
    X(inflight, u32, "inflight:tenant") \
    X(cost, i64, "meta_i64:cost_ms")    \
    X(model, str, "meta_str:model")     \
    X(limit, i64, "limit:tenant")
#define QUERN_CONTEXT(X) X(warm, str, "warm_model")
#include "quern.h"

static const char *plugin_init(quern_value config) {
    (void)config;
    return 0;
}

static void plugin_score(const quern_batch *b, quern_f64 *restrict scores) {
    const quern_i64 *p = priority_of(b), *a = age_of(b), *co = cost_of(b), *li = limit_of(b);
    const quern_u32 *at = attempts_of(b), *re = available_of(b), *in = inflight_of(b), *m = model_of(b);
    quern_u32 w = warm_of(b);
    for (quern_u32 i = 0; i < b->rows; i++) {
        quern_f64 busy = in[i];
        quern_f64 s = (quern_f64)p[i] * 10 + (quern_f64)a[i] * 0.001 - (quern_f64)at[i] * 5 + 1000 / (1 + (quern_f64)re[i]) - 0.5 * busy * busy + (quern_f64)co[i] * 0.25;
        if (m[i] == w) s *= 2;
        if (li[i] == 0) s -= 1e6;
        scores[i] = s;
    }
}
