// Package plugins is the catalogue of uploaded plugins: from bytes that a stranger sent to scores that decide an order.
//
// An upload goes through validate (wasm/scan, wasm/manifest), instrument, compile (in a child process) and a dry run with synthetic
// batches. An upload that passes is a version in the state Ready, kept in the store under the sha256 of its bytes. For one that fails,
// nothing is kept, and the answer lists everything that is wrong. A version scores when it is activated, as a canary for a share of the
// requests, or as a shadow whose scores are only compared.
//
// Inside, a registry knows the versions and which of them are in use, sandboxes open them, and scorers choose the version that scores a
// window and keep the books. Each knows those before it. The calls of users are on top: Plugins, Versions, Rollout, Observations.
//
// Catalogue is the engine's strategy.Scorers. The parts of a plugin that are in use are one immutable value behind an atomic pointer,
// so a change is one swap and each request is served by one version only. A version that was replaced is kept open for a while and then
// closed when its last batch has ended.
//
// A plugin that fails is taken out of use before it does harm: three faults within a minute open the breaker of that version and
// configuration for five seconds, and for longer each time; five times within an hour quarantine it. A plugin that uses more
// than its share of the processor is throttled in the same way. An operator can hold a breaker open or closed.
package plugins
