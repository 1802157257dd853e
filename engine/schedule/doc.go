// Package schedule calculates when a schedule is due, from cron specs, fixed intervals and single moments, in any time zone. It is pure: it
// reads no clock, and the same spec gives the same ticks on every machine that has the same time zone data.
//
// The behaviour when clocks change is a promise (docs/LIFECYCLE.md):
//
//   - A wall time that does not exist, because clocks are set forward over it, runs at the first instant after the gap.
//   - A wall time that exists twice, because clocks are set back, runs the first time only.
//   - Where the hours or the minutes are `*` or a step, a spec means a rhythm rather than a time of day: it goes on by elapsed time. Both
//     passes of a repeated hour have ticks, and the ticks of a missing hour come at the usual distance from the last one.
//
//quern:tests pure
package schedule
