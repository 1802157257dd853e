package wasmtest

import "os"

// Base is a builder with the things that every plugin needs: a memory of one page, the marker, quern_alloc, and types 0: () -> () and 1:
// (i32) -> (i32). Function 0 is the marker, function 1 the allocator; imports must be added to a Builder of their own.
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

// Child is the command that starts this test binary as its own compiling child: the real thing under real limits. TestMain hands such a
// start to compile.Child. A compiler gives its child an environment of its own; env adds how the race detector is to end.
func Child(arg string) []string {
	self, err := os.Executable()
	if err != nil {
		panic(err)
	}
	return []string{"/usr/bin/env", "GORACE=" + os.Getenv("GORACE"), self, arg}
}

// SlowStart is Scorer with a quern_init that counts this many rounds first, some ten units of fuel each: its sandbox takes long to start.
func SlowStart(rounds int32) []byte {
	b := Base()
	b.Export("quern_init", Function, b.Function(b.Type([]byte{I32, I32}, []byte{I32}), []byte{I32},
		0x03, Empty, 0x20, 2, 0x41, 1, 0x6a, 0x22, 2, ConstI32(rounds), 0x48, 0x0d, 0, End, 0x41, 0, End))
	b.Export("quern_score", Function, b.Function(1, rowLocals,
		each(Code(column(0), ConstF64(10), 0xa2, column(1), ConstF64(5), 0xa2, 0xa1))))
	return b.Bytes()
}

// Roomy is Scorer with a memory of this many pages from the beginning.
func Roomy(pages uint32) []byte { return Stuffed(pages, nil) }

// Stuffed is Roomy with content in its memory, from the second page on.
func Stuffed(pages uint32, content []byte) []byte {
	b := &Builder{}
	b.Type(nil, nil)
	b.Type([]byte{I32}, []byte{I32})
	b.Memory(pages, -1)
	b.finish()
	b.Export("quern_score", Function, b.Function(1, rowLocals,
		each(Code(column(0), ConstF64(10), 0xa2, column(1), ConstF64(5), 0xa2, 0xa1))))
	if content != nil {
		b.Data(64<<10, content)
	}
	return b.Bytes()
}

// Choosy is Scorer with a quern_init that refuses every configuration but the empty one.
func Choosy() []byte {
	b := Base()
	b.Export("quern_init", Function, b.Function(b.Type([]byte{I32, I32}, []byte{I32}), nil, 0x20, 1, ConstI32(2), 0x4a, End))
	b.Export("quern_score", Function, b.Function(1, rowLocals,
		each(Code(column(0), ConstF64(10), 0xa2, column(1), ConstF64(5), 0xa2, 0xa1))))
	return b.Bytes()
}
