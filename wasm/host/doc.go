// Package host runs compiled plugins: batches in, scores out, whatever the plugin does.
//
// A Version is one module with one configuration, in a wazero runtime of its own so that closing it frees everything. It has up to
// N instances. An instance serves one batch at a time and is thrown away after any fault: nothing of it is trusted again.
//
// A batch is copied into the region that the instance gave at its start (see sdk/abi for the bytes), quern_score is
// called once, and the scores are read from where the host put them: a guest never returns an address. Between those,
// the guest has
//
//   - fuel: 2,000,000 units and 20,000 per candidate, counted by the module itself, which wasm/instrument rewrote. The host's
//     work for it (random bytes, log lines, strings) is charged too, a unit per byte;
//   - time: at the end of each slice of 200,000 units it calls quern_v1.tick, which asks the deadline and the stop function.
//     There the rest of the process may also stop the world;
//   - a clock that stands at the batch's time, chance that depends on the batch's seed only, no files, no arguments.
//
// The host remembers nothing of a batch: with the state "reset" or "fresh" the same batch gives the same bits on any instance.
package host
