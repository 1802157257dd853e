package wasmtest

// SlowStart is Scorer with a quern_init that counts to so many rounds first, some ten units of fuel each: its sandbox takes long to start.
func SlowStart(rounds int32) []byte {
	b := Base()
	b.Export("quern_init", Function, b.Function(b.Type([]byte{I32, I32}, []byte{I32}), []byte{I32},
		0x03, Empty, 0x20, 2, 0x41, 1, 0x6a, 0x22, 2, ConstI32(rounds), 0x48, 0x0d, 0, End, 0x41, 0, End))
	b.Export("quern_score", Function, b.Function(1, rowLocals,
		each(Code(column(0), ConstF64(10), 0xa2, column(1), ConstF64(5), 0xa2, 0xa1))))
	return b.Bytes()
}

// Roomy is Scorer with a memory of so many pages from the beginning.
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
