// Package fair divides service between tenants by weight. A Ledger knows nothing of chunks, strategies or time: its caller says which
// tenants have something to offer, asks whose turn it is, and says what was given. It is pure arithmetic on integers and deterministic: the
// same calls give the same picks.
//
// The rule is earliest eligible virtual deadline first. Every tenant that competes has a start tag, which grows by cost/weight
// when it is served; virtual time is the mean of the tags, weighed by the weights. A tenant whose tag is not after virtual time
// is eligible, and of the eligible ones the tenant is picked whose tag plus one expected cost comes first. The lag of a tenant is weight ×
// (virtual time − tag): the service that an ideal fluid division would have given it beyond what it got. Positive is behind, negative is
// ahead. Three rules keep the sum of all lags at 0, and with it every single one small:
//
//   - A tenant that has nothing more to offer while it is ahead stays in the mean, owing, until virtual time reaches its tag. Otherwise it
//     is forgotten, and the others share the lag that it had. Idleness earns nothing: a tenant that comes (back) starts at virtual time.
//   - A tenant that has something to offer but may not (it is at a limit, it is paused) is blocked: its lag is frozen and is the
//     same when it returns.
//   - A change of weight keeps the lag and changes the tag.
//
// Blocked tenants have a virtual time of their own, and their frozen lags are measured from it. It stands still, except when the last
// competitor leaves while the blocked tenants together are ahead. Then they owe no one any more, so it moves until their lags add up to 0
// again.
//
// Costs are integers in units of 2^-40 chunk and weights are integers in thousandths; a tag is a whole number and a fraction in
// units of 1/weight, so that a cost is added, and given back, without rounding. Virtual time is never summed up: it follows from the tags.
// Only a lag that is carried from one weight or virtual time to another is rounded, by less than one unit, and the difference is accounted
// for.
//
// Fairness of several levels is one Ledger per tenant below another Ledger: pick from top to bottom, charge every level.
//
//quern:tests pure
package fair
