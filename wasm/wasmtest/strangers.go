package wasmtest

import (
	"bytes"
	"slices"
)

// signed is a builder with types 0: () -> (), 1: (i32) -> (i32), and more to import with, to which finish may be applied.
func signed(more ...[2][]byte) *Builder {
	b := &Builder{}
	b.Type(nil, nil)
	b.Type([]byte{I32}, []byte{I32})
	for _, t := range more {
		b.Type(t[0], t[1])
	}
	return b
}

// importing is a plugin that imports one function of type 2 with these parameters and results, and calls it with zeros.
func importing(module, name string, params, results []byte) func() []byte {
	return func() []byte {
		b := signed([2][]byte{params, results})
		f := b.ImportFunction(module, name, 2)
		b.Memory(1, -1)
		b.finish()
		var c []byte
		for _, t := range params {
			c = append(c, Code(map[byte][]byte{I32: {0x41, 0}, I64: {0x42, 0}, F64: ConstF64(0)}[t])...)
		}
		b.Export("quern_score", Function, b.Function(1, nil, c, Op(0x10, f), bytes.Repeat([]byte{0x1a}, len(results)), 0x41, 0, End))
		return b.Bytes()
	}
}

// strangers are modules that ask for imports that plugins do not get, or lack a required export.
func strangers() []Hostile {
	i := func(n int) []byte { return bytes.Repeat([]byte{I32}, n) }
	wasi := "wasi_snapshot_preview1"
	return slices.Concat([]Hostile{
		refused("import_env_system", "forbidden_import", importing("env", "system", nil, nil)),
		refused("import_path_open", "forbidden_import",
			importing(wasi, "path_open", []byte{I32, I32, I32, I32, I32, I64, I64, I32, I32}, i(1))),
		refused("import_sock_accept", "forbidden_import", importing(wasi, "sock_accept", i(3), i(1))),
		refused("import_tick", "reserved_name", importing("quern_v1", "tick", nil, nil)),
		refused("import_wrong_signature", "wrong_signature", importing("quern_v1", "log", i(2), nil)),
		refused("import_memory", "forbidden_import", importingOther(Memory, Limits(1, 65_536))),
		refused("import_table", "forbidden_import", importingOther(Table, append([]byte{FuncRef}, Limits(1, 1)...))),
		refused("import_global", "forbidden_import", importingOther(Global, []byte{I32, 0})),
		refused("memory_shared", "shared_memory", func() []byte { b := Base(); b.Raw(5, Vector([]byte{3, 1, 2})); return b.Bytes() }),
		refused("memory_64", "memory64", func() []byte { b := Base(); b.Raw(5, Vector([]byte{4, 1})); return b.Bytes() }),
		refused("memory_missing", "missing_memory", func() []byte {
			b := signed()
			b.Export("quern_abi_1", Function, b.Function(0, nil, End))
			b.Export("quern_alloc", Function, b.Function(1, nil, 0x41, 0, End))
			b.Export("quern_score", Function, 1)
			return b.Bytes()
		}),
		refused("memory_not_exported", "missing_memory", func() []byte { b := signed(); b.Memory(1, -1); return b.Bytes() }),
		refused("memories_2", "too_many_memories", func() []byte { b := Base(); b.Memory(1, 1); return b.Bytes() }),
		refused("start", "start_section", func() []byte {
			b := Base()
			b.Start(b.Function(0, nil, 0x03, Empty, 0x0c, 0, End, End))
			return b.Bytes()
		}),
		refused("marker_missing", "missing_marker", func() []byte { b := signed(); b.Memory(1, -1); return b.Bytes() }),
		refused("marker_9", "abi_unsupported", func() []byte {
			b := signed()
			b.Memory(1, -1)
			b.Export("memory", Memory, 0)
			b.Export("quern_abi_9", Function, b.Function(0, nil, End))
			return b.Bytes()
		}),
		refused("score_missing", "missing_export", func() []byte { return Base().Bytes() }),
		refused("score_wrong_signature", "wrong_signature", func() []byte {
			b := Base()
			b.Export("quern_score", Function, 0)
			return b.Bytes()
		}),
		refused("score_is_a_memory", "wrong_signature",
			func() []byte { b := Base(); b.Export("quern_score", Memory, 0); return b.Bytes() }),
		refused("initialize_wrong_signature", "wrong_signature",
			func() []byte { b := Base(); b.Export("_initialize", Function, 1); return b.Bytes() }),
		refused("export_twice", "duplicate_export", func() []byte { b := Base(); b.Export("memory", Memory, 0); return b.Bytes() }),
		refused("export_reserved", "reserved_name", func() []byte { b := Base(); b.Export("__quern_fuel", Function, 0); return b.Bytes() }),
		refused("manifest_twice", "duplicate_manifest", func() []byte {
			b := Base()
			b.Custom("quern.manifest", []byte("{}"))
			b.Custom("quern.manifest", []byte("{}"))
			return b.Bytes()
		}),
	}, proposals())
}

func importingOther(kind byte, description []byte) func() []byte {
	return func() []byte {
		b := signed()
		b.Import("env", "thing", kind, description)
		if kind != Memory {
			b.Memory(1, -1)
		}
		b.finish()
		return b.Bytes()
	}
}

// proposals are plugins with an instruction that is not in core 2.0.
func proposals() (all []Hostile) {
	for _, p := range []struct {
		name string
		code []byte
	}{
		{"tail_call", []byte{0x20, 0, 0x12, 2}},
		{"tail_call_indirect", []byte{0x20, 0, 0x13, 1, 0}},
		{"call_ref", []byte{0x14, 1}},
		{"exception_try", []byte{0x06, Empty, End}},
		{"exception_throw", []byte{0x08, 0}},
		{"exception_try_table", []byte{0x1f, Empty, 0, End}},
		{"atomic_fence", []byte{0xfe, 3, 0}},
		{"garbage_collection", []byte{0xfb, 0, 1}},
		{"relaxed_simd", []byte{0xfd, 0x80, 2}},
		{"simd_unassigned", []byte{0xfd, 0x9a, 1}},
		{"miscellaneous_18", []byte{0xfc, 18}},
		{"memory_grow_of_another", []byte{0x41, 0, 0x40, 1, 0x1a}},
	} {
		rule := "forbidden_opcode"
		if p.name == "memory_grow_of_another" {
			rule = "malformed"
		}
		all = append(all, refused("opcode_"+p.name, rule, func() []byte { return Plugin(Code(p.code, 0x41, 0, End)) }))
	}
	return all
}
