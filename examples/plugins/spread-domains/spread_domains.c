/* Spread-domains: it spreads the chunks in flight evenly over failure domains (racks, zones, providers), so that the loss of
 * one takes few of them. The zone that a submission's work depends on is in its metadata. */
#define QUERN_MANIFEST                                                                                                  \
    "name" : "spread-domains", "version" : "1.0.0", "license" : "Apache-2.0", "take" : "spread",                        \
    "window" : {"default" : 256, "max" : 1024},                                                                         \
    "config_schema" : {                                                                                                 \
        "type" : "object",                                                                                              \
        "properties" : {                                                                                                \
            "spread" : {"type" : "number", "minimum" : 0, "default" : 10, "description" : "points that each chunk in flight costs its zone"}, \
            "local" : {"type" : "number", "default" : 0, "description" : "points for the zone that the consumer is in"}  \
        },                                                                                                              \
        "additionalProperties" : false                                                                                  \
    }
#define QUERN_COLUMNS(X)                            \
    X(priority, i64, "priority")                    \
    X(age, i64, "age_ms")                           \
    X(attempts, u32, "attempts")                    \
    X(zone, str, "meta_str:zone")                   \
    X(busy, u32, "inflight:zone")                   \
    X(own, u32, "inflight_submission")
#define QUERN_CONTEXT(X) X(here, str, "zone")
#define QUERN_COUNTERS(X) X(nowhere, "rows_without_zone")
#include "quern.h"

static struct {
    quern_f64 spread, local;
} config;

/* How many candidates of each zone came before in this batch, by the zone's id. A slot counts only with the batch's stamp. */
enum { SLOTS = 2048 }; /* twice the largest window, so that there is always a free one near */
static struct {
    quern_u32 stamp, id, seen;
} slots[SLOTS];
static quern_u32 stamp;

static quern_u32 seen_before(quern_u32 id) {
    quern_u32 at = id * 2654435761u % SLOTS;
    while (slots[at].stamp == stamp && slots[at].id != id) at = (at + 1) % SLOTS;
    if (slots[at].stamp != stamp) {
        slots[at].stamp = stamp;
        slots[at].id = id;
        slots[at].seen = 0;
    }
    return slots[at].seen++;
}

static const char *plugin_init(quern_value c) {
    config.spread = quern_number(quern_get(c, "spread"), 10);
    config.local = quern_number(quern_get(c, "local"), 0);
    return 0;
}

/* The second candidate of a zone in one window costs as if the first were in flight already, so that one large request is
 * spread as well as many small ones. */
static void plugin_score(const quern_batch *b, quern_f64 *scores) {
    const quern_i64 *p = priority_of(b), *waited = age_of(b);
    const quern_u32 *tries = attempts_of(b), *z = zone_of(b), *in_zone = busy_of(b), *in_flight = own_of(b);
    quern_u32 mine = here_of(b), without = 0;
    if (++stamp == 0) {
        for (quern_u32 i = 0; i < SLOTS; i++) slots[i].stamp = 0;
        stamp = 1;
    }
    for (quern_u32 i = 0; i < b->rows; i++) {
        quern_f64 s = (quern_f64)p[i] + (quern_f64)waited[i] * 0.001 - (quern_f64)tries[i];
        if (z[i] == 0) {
            without++; /* it depends on no zone: its own chunks are what is lost with it */
            s -= config.spread * (quern_f64)in_flight[i];
        } else {
            s -= config.spread * ((quern_f64)in_zone[i] + (quern_f64)seen_before(z[i]));
            if (z[i] == mine) s += config.local;
        }
        scores[i] = s;
    }
    if (without) nowhere_add(without);
}
