// Package host runs compiled plugins: batches in, scores out, whatever the plugin does.
//
// A Version is one module with one configuration, in a wazero runtime of its own so that closing it frees everything. It has up to
// N instances. An instance serves one batch at a time and is thrown away after any fault: nothing of it is trusted again.
//
// A batch is copied into the region that the instance gave at its start (see sdk/abi for the bytes), quern_score is
// called once, and the scores are read from where the host put them: a guest never returns an address. Between those,
// the guest has
//
//   - fuel: 2,000,000 units and 20,000 per candidate, counted by the module itself, which wasm/instrument rewrote. What the host
//     does for it (random bytes, log lines, strings) is charged too, a unit per byte;
//   - time: at the end of each slice of a million units it calls quern_v1.tick, where the deadline and the stop
//     function are asked. That also lets
//     the rest of the process stop the world;
//   - a clock that stands at the batch's time, chance that depends on the batch's seed only, no files, no arguments.
//
// What the host remembers of a batch is nothing: with the state "reset" or "fresh" the same batch gives the same bits on any instance.
package host
