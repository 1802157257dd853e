package wasmtest

// Base is a builder with what every plugin needs: a memory of one page, the marker, quern_alloc, and types 0: () -> () and
// 1: (i32) -> (i32). Function 0 is the marker, function 1 the allocator; imports must be added to a Builder of their own.
func Base() *Builder {
	b := &Builder{}
	b.Type(nil, nil)
	b.Type([]byte{I32}, []byte{I32})
	b.Memory(1, -1)
	b.finish()
	return b
}

// finish adds memory export, marker and allocator. The types 0 and 1 must be there.
func (b *Builder) finish() {
	b.Export("memory", Memory, 0)
	b.Export("quern_abi_1", Function, b.Function(0, nil, End))
	b.Export("quern_alloc", Function, b.Function(1, nil, ConstI32(1024), End))
}

// Plugin is a plugin whose quern_score is this code.
func Plugin(score []byte) []byte { return PluginWithLocals(nil, score) }

// PluginWithLocals is Plugin with locals, one type per byte; they are numbered from 1 on, behind the parameter.
func PluginWithLocals(locals, score []byte) []byte {
	b := Base()
	b.Export("quern_score", Function, b.Function(1, locals, score))
	return b.Bytes()
}
