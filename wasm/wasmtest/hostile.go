package wasmtest

import (
	"bytes"
	"slices"
)

// Stage is where a hostile module is stopped.
type Stage string

// The stages, in the order in which a module meets them.
const (
	Scan    Stage = "scan"    // refused by the scan
	Compile Stage = "compile" // refused by the engine when it compiles
	Run     Stage = "run"     // loaded; stopped or answered for when it runs
)

// Fault is the fault of a module that runs.
type Fault string

// The faults.
const (
	OutOfFuel  Fault = "fuel"   // traps with the fuel below zero
	TooDeep    Fault = "depth"  // traps with the depth below zero
	Trap       Fault = "trap"   // traps on its own
	ExitCalled Fault = "exit"   // calls proc_exit
	GuestError Fault = "status" // quern_score returns a number above zero
	BadScores  Fault = "scores" // returns, and its scores are not numbers or not there
	Harmless   Fault = "none"   // returns; the host has limited what it could do
)

// Hostile is a module that an attacker might upload.
type Hostile struct {
	Name  string
	Stage Stage
	Rule  string // at Scan: the rule that must be among the violations
	Fault Fault  // at Run
	Build func() []byte
}

// Corpus is every hostile module: those that the scan refuses, then the others.
func Corpus() []Hostile {
	return slices.Concat(falseCounts(), damaged(), bombs(), strangers(), faults())
}

func refused(name, rule string, build func() []byte) Hostile {
	return Hostile{Name: name, Stage: Scan, Rule: rule, Build: build}
}

func runs(name string, fault Fault, build func() []byte) Hostile {
	return Hostile{Name: name, Stage: Run, Fault: fault, Build: build}
}

// falseCounts are headers with one section that declares 2^32-1 entries and has none: an engine that makes room first is dead.
func falseCounts() (all []Hostile) {
	lie := Unsigned(1<<32 - 1)
	for _, s := range []struct {
		name string
		id   byte
	}{{"type", 1}, {"import", 2}, {"function", 3}, {"table", 4}, {"memory", 5}, {"global", 6}, {"export", 7},
		{"element", 9}, {"code", 10}, {"data", 11}} {
		all = append(all, refused("count_lie_"+s.name, "count_lie", func() []byte { return append([]byte(Header), Section(s.id, lie)...) }))
	}
	inBody := func(code ...any) func() []byte { return func() []byte { return Plugin(Code(code...)) } }
	return append(all,
		refused("count_lie_br_table", "count_lie", inBody(0x41, 0, 0x0e, lie, 0, End)),
		refused("count_lie_locals_groups", "count_lie", func() []byte {
			b := Base()
			b.Export("quern_score", Function, b.RawFunction(1, lie))
			return b.Bytes()
		}),
		refused("count_lie_params", "truncated", func() []byte {
			return append([]byte(Header), Section(1, slices.Concat([]byte{1, 0x60}, lie))...)
		}),
		refused("count_lie_element_entries", "count_lie", func() []byte {
			b := Base()
			b.Table(1, 1)
			b.RawElements(slices.Concat([]byte{0, 0x41, 0, End}, lie))
			return b.Bytes()
		}),
		refused("custom_size_lie", "truncated", func() []byte { return slices.Concat([]byte(Header), []byte{0}, lie, Name("x")) }),
		refused("data_size_lie", "truncated", func() []byte {
			b := Base()
			b.RawData(slices.Concat([]byte{0, 0x41, 0, End}, lie))
			return b.Bytes()
		}),
		refused("data_count_lie", "malformed", func() []byte {
			b := Base()
			b.Raw(12, lie)
			return b.Bytes()
		}),
	)
}

// damaged are files that are no module, or no longer.
func damaged() []Hostile {
	good := func() []byte { return Plugin(Code(0x41, 0, End)) }
	return []Hostile{
		refused("empty", "not_wasm", func() []byte { return nil }),
		refused("text", "not_wasm", func() []byte { return []byte("hello world, not wasm") }),
		refused("component", "component", func() []byte { return []byte("\x00asm\x0d\x00\x01\x00") }),
		refused("version_2", "not_wasm", func() []byte { return []byte("\x00asm\x02\x00\x00\x00") }),
		refused("truncated", "truncated", func() []byte { m := good(); return m[:len(m)-3] }),
		refused("section_twice", "section_order", func() []byte { return append(good(), Section(1, Vector())...) }),
		refused("unknown_section", "section_order", func() []byte { return append(good(), Section(13, Vector())...) }),
		refused("number_too_long", "malformed", func() []byte { return append([]byte(Header), 1, 0x80, 0x80, 0x80, 0x80, 0x10) }),
		refused("body_without_end", "truncated", func() []byte { return Plugin(Code(0x41, 0)) }),
		refused("body_behind_end", "malformed", func() []byte { return Plugin(Code(0x41, 0, End, 0x01)) }),
		refused("bodies_missing", "malformed", func() []byte { b := Base(); b.Raw(10, Vector()); return b.Bytes() }),
		refused("name_not_utf8", "malformed", func() []byte { b := Base(); b.Export("\xff\xfe", Function, 0); return b.Bytes() }),
		refused("else_without_if", "malformed", func() []byte { return Plugin(Code(0x05, 0x41, 0, End)) }),
		refused("export_of_nothing", "index_range", func() []byte { b := Base(); b.Export("x", Function, 99); return b.Bytes() }),
		refused("local_of_the_rewriter", "index_range", func() []byte { return Plugin(Code(0x42, 0, 0x21, 1, 0x41, 0, End)) }),
		refused("global_of_the_rewriter", "index_range", func() []byte { return Plugin(Code(0x42, 0, 0x24, 0, 0x41, 0, End)) }),
		refused("type_of_the_rewriter", "index_range", func() []byte { return Plugin(Code(0x02, 2, End, 0x41, 0, End)) }),
		refused("function_of_the_rewriter", "index_range", func() []byte { return Plugin(Code(0x10, 3, 0x41, 0, End)) }),
		refused("branch_out_of_the_function", "index_range", func() []byte { return Plugin(Code(0x0c, 1, 0x41, 0, End)) }),
	}
}

// SSABomb is a plugin with n loops over n locals, which compiles in cubic time: with 1,000 of both, 21 KB took over 25 seconds.
func SSABomb(n int) []byte {
	var c []byte
	for i := range n {
		c = append(c, Code(0x03, Empty, Op(0x20, uint32(1+i%n)), ConstI64(1), 0x7c, Op(0x21, uint32(1+i*7%n)), 0x20, 0, 0x0d, 0, End)...)
	}
	for i := range n {
		c = append(c, Code(Op(0x20, uint32(1+i)), 0xa7, 0x1a)...)
	}
	return PluginWithLocals(bytes.Repeat([]byte{I64}, n), Code(c, 0x41, 0, End))
}

// Nested is a plugin with n blocks in each other.
func Nested(n int) []byte {
	return Plugin(Code(bytes.Repeat([]byte{0x02, Empty}, n), bytes.Repeat([]byte{End}, n), 0x41, 0, End))
}

// Switch is a plugin with a br_table of n targets.
func Switch(n int) []byte {
	return Plugin(Code(0x02, Empty, 0x20, 0, 0x0e, Unsigned(uint64(n)), make([]byte, n+1), End, 0x41, 0, End))
}

// IfChain is a plugin with n ifs behind each other.
func IfChain(n int) []byte {
	return Plugin(Code(bytes.Repeat([]byte{0x20, 0, 0x04, Empty, 0x20, 0, 0x41, 1, 0x6a, 0x21, 0, End}, n), 0x20, 0, End))
}

// Straight is a plugin with n additions and nothing else.
func Straight(n int) []byte {
	return Plugin(Code(0x20, 0, bytes.Repeat([]byte{0x41, 1, 0x6a}, n), End))
}

// Functions is a plugin with n small functions.
func Functions(n int) []byte {
	b := Base()
	b.Export("quern_score", Function, b.Function(1, nil, 0x41, 0, End))
	for range n - 3 {
		b.Function(1, nil, 0x41, 0, End)
	}
	return b.Bytes()
}

// WideCalls is a plugin with n calls, of two bytes each, of a function that takes and gives width numbers.
func WideCalls(n, width int) []byte {
	b := Base()
	numbers := bytes.Repeat([]byte{I64}, width)
	wide := b.Type(numbers, numbers)
	same := []byte{}
	for i := range width {
		same = append(same, Op(0x20, uint32(i))...)
	}
	f := b.Function(wide, nil, same, End)
	b.Export("quern_score", Function, b.Function(1, nil,
		bytes.Repeat([]byte{0x42, 0}, width), bytes.Repeat(Op(0x10, f), n), bytes.Repeat([]byte{0x1a}, width), 0x41, 0, End))
	return b.Bytes()
}

// Conditions is a plugin with n br_ifs behind each other.
func Conditions(n int) []byte {
	return Plugin(Code(bytes.Repeat([]byte{0x41, 5, 0x20, 0, 0x0d, 0, 0x1a}, n), 0x41, 0, End))
}

// Fills is a plugin that grows its memory to 201 pages and fills 200 of them n times, without a loop.
func Fills(n int) []byte {
	fill := Code(0x41, 0, 0x41, 0, ConstI32(200<<16), 0xfc, 11, 0)
	return Plugin(Code(ConstI32(200), 0x40, 0, 0x1a, bytes.Repeat(fill, n), 0x41, 0, End))
}

// bombs are modules whose size does not show what compiling or loading them costs.
func bombs() []Hostile {
	table := func(least uint32) func() []byte {
		return func() []byte { b := Base(); b.Table(least, -1); return b.Bytes() }
	}
	return []Hostile{
		refused("custom_section_17MB", "module_too_large", func() []byte {
			b := Base()
			b.Custom("pad", make([]byte, 17<<20))
			return b.Bytes()
		}),
		refused("manifest_64KB", "manifest_too_large", func() []byte {
			b := Base()
			b.Custom("quern.manifest", make([]byte, 64<<10))
			return b.Bytes()
		}),
		refused("locals_4e9", "too_many_locals", func() []byte {
			b := Base()
			b.Export("quern_score", Function, b.RawFunction(1, Code(1, Unsigned(1<<32-1), I64, 0x41, 0, End)))
			return b.Bytes()
		}),
		refused("locals_overflowing_sum", "too_many_locals", func() []byte {
			b := Base()
			b.Export("quern_score", Function,
				b.RawFunction(1, Code(3, Unsigned(1<<32-1), I64, Unsigned(1<<32-1), I64, 2, I64, 0x41, 0, End)))
			return b.Bytes()
		}),
		refused("ssa_bomb", "compile_budget", func() []byte { return SSABomb(1_000) }),
		refused("nested_blocks", "nesting_too_deep", func() []byte { return Nested(20_000) }),
		refused("br_table_100k", "br_table_too_large", func() []byte { return Switch(100_000) }),
		refused("if_chain", "too_many_blocks", func() []byte { return IfChain(8_000) }),
		refused("straight_4MB", "body_too_large", func() []byte { return Straight(1_200_000) }),
		refused("wide_calls", "compile_budget", func() []byte { return WideCalls(40_000, 100) }),
		refused("conditional_branches", "compile_budget", func() []byte { return Conditions(18_000) }),
		refused("memory_fills_without_loop", "compile_budget", func() []byte { return Fills(10_000) }),
		refused("functions_500k", "too_many_functions", func() []byte { return Functions(500_000) }),
		refused("types_1M", "too_many_types", func() []byte {
			b := Base()
			b.Raw(1, Code(Unsigned(700_000), bytes.Repeat([]byte{0x60, 1, I32, 1, I32}, 700_000)))
			return b.Bytes()
		}),
		refused("table_134M", "table_too_large", table(1<<27)),
		refused("tables_20", "too_many_tables", func() []byte {
			b := Base()
			for range 20 {
				b.Table(1, 1)
			}
			return b.Bytes()
		}),
		refused("memory_4GiB", "memory_too_large", func() []byte { b := Base(); b.Raw(5, Vector(Limits(65_536, -1))); return b.Bytes() }),
	}
}
