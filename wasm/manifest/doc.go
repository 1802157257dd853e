// Package manifest reads a plugin's own description: the JSON in the custom section quern.manifest of its module. It is read
// without running any code. All faults are reported at once, each with a JSON pointer.
//
//	{
//	  "name": "deadline-first", "version": "1.2.0", "abi": 1,
//	  "columns": ["priority", "meta_i64:deadline_ms", "inflight:tenant"],
//	  "context": [{"key": "warm_model", "type": "str"}],
//	  "counters": ["warm_hits"],
//	  "config_schema": {"type": "object", "properties": {"weight": {"type": "number", "minimum": 0, "default": 1}}},
//	  "state": "pooled", "take": "all", "window": {"default": 256, "max": 1024},
//	  "needs": {"pages": 64, "fuel_per_candidate": 2000},
//	  "license": "MIT", "author": "…", "home": "https://…"
//	}
//
// name, version, abi and columns are required. The configuration's schema is a subset of JSON Schema, see Schema.
//
//quern:tests pure
package manifest
