// Package abi is version 1 of the contract between Quern and a plugin: the names a module exports and imports, and the bytes
// of the batch region that both sides read and write. Host, guest SDK and command line share it; it imports nothing of ours
// and keeps out of the heavy packages, because it is compiled into every Go guest.
//
// A module exports:
//
//	memory                          its own linear memory
//	quern_abi_1()                   the marker of this version, never called
//	_initialize()                   optional, run once per instance
//	quern_alloc(size i32) -> i32    room for the configuration and the region; never freed
//	quern_init(ptr, len i32) -> i32 optional, gets the configuration as JSON; 0 is success
//	quern_score(batch i32) -> i32   scores one batch; 0 is success, anything else a fault
//
// and may import from quern_v1: log, log_enabled, metric_add, intern, str.
//
// The batch region, all little-endian, every offset counted from its first byte, whose address quern_score gets:
//
//	  0      4      8      12     16     20     24            32            40     44     48     52       64
//	  +------+------+------+------+------+------+-------------+-------------+------+------+------+--------+
//	  | QRN1 | head | rows | cols | desc | scor | now_ms  i64 | seed    u64 | want | flag | capa | zeroes |
//	  +------+------+------+------+------+------+-------------+-------------+------+------+------+--------+
//	   magic  size   n      ncols  at     at                                        bits   W
//
//	desc: one descriptor of 16 bytes per column, in the manifest's order, context columns last
//	  +-----------+--------+--------+--------------+----------+
//	  | offset u32| type u16| flags u16| validity u32 | zero u32 |
//	  +-----------+--------+--------+--------------+----------+
//	then, each aligned to 16 bytes: the columns' values (W rows; a context column has one), one byte per row for the
//	validity of nullable columns (1 present, 0 absent; the value is then 0), and the scores, f64[W].
//
// Descriptors are written once per instance, the 40 bytes from offset 8 and the rows once per batch. A guest finds columns by
// their descriptors and the descriptors by the header, so that both may grow.
//
// A string column holds dictionary ids: 0 is absent, equal ids are equal strings within one batch, across all string columns
// of it. Ids that intern returned keep their meaning for the life of the instance, others only for the batch.
//
// Scores: larger first, equal ones keep the inner order, infinities are ordered, a NaN skips the candidate in this
// window. The host fills the scores with one particular NaN (NotWritten) before each batch, so that it can tell what
// was never written.
//
//quern:tests pure
package abi
