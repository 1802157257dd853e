package compile

import (
	"context"
	"encoding/binary"
)

// Budget counts the memory of code that is loaded.
type Budget interface {
	TakeCode(bytes int64) bool // false: there is no room
	GiveCode(bytes int64)
}

// What code takes beside itself and its module: 50 KB for a runtime, 20 KB for what the host offers, and 80 to 100 bytes for each entry.
const (
	runtimeBytes = 64 << 10
	entryBytes   = 100
)

// codeBytes estimates the memory of a module as machine code of so many bytes. It is at most 10 % less than was measured: Go guests,
// thousands of small functions, globals, exports, segments (TestCodeBytes).
func codeBytes(module []byte, code int64) int64 {
	return code + 2*int64(len(module)) + entryBytes*entries(module) + runtimeBytes
}

// entries counts the types, functions, exports, globals and segments of a module: the engine keeps a record of each.
func entries(module []byte) (n int64) {
	const header = 8
	for rest := module[min(header, len(module)):]; len(rest) > 0; {
		id := rest[0]
		size, width := binary.Uvarint(rest[1:])
		if width <= 0 || size > uint64(len(rest)-1-width) {
			return n // it is no module
		}
		content := rest[1+width:][:size]
		rest = rest[1+width+int(size):]
		switch id {
		case 1, 3, 6, 7, 9, 11:
			count, _ := binary.Uvarint(content)
			n += int64(min(count, size))
		}
	}
	return n
}

// counted has code built for which the budget has room, and gives that back when the code is closed.
func (c *Compiler) counted(bytes int64, build func() (*Compiled, error)) (*Compiled, error) {
	budget := c.config.Budget
	if budget == nil {
		return build()
	}
	if !budget.TakeCode(bytes) {
		return nil, ErrNoRoom
	}
	compiled, err := build()
	if err != nil {
		budget.GiveCode(bytes)
		return nil, err
	}
	compiled.freed = func() { budget.GiveCode(bytes) }
	return compiled, nil
}

// codePerByte is the most machine code that a byte of WebAssembly was seen to become: small functions have a beginning and an end.
const codePerByte = 8

// InProcess compiles a module that the program made itself, without a child and without the cache.
func (c *Compiler) InProcess(ctx context.Context, module []byte) (*Compiled, error) {
	return c.counted(codeBytes(module, codePerByte*int64(len(module))), func() (*Compiled, error) {
		return InProcess(ctx, module, c.config.Limits.Pages)
	})
}
