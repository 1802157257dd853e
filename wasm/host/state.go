package host

import (
	"github.com/tetratelabs/wazero/api"

	"github.com/quern-queue/quern/wasm/manifest"
)

// snapshot is all state of an instance that a batch may change: its memory and its mutable globals. The counters of fuel and depth are
// set before every batch anyway.
type snapshot struct {
	memory  []byte
	globals []api.MutableGlobal
	values  []uint64
}

// take remembers an instance as it is.
func (i *instance) take() *snapshot {
	memory, _ := i.module.Memory().Read(0, i.module.Memory().Size())
	s := &snapshot{memory: append([]byte(nil), memory...)}
	for _, state := range i.version.options.Globals {
		if g, ok := i.module.ExportedGlobal(state.Export).(api.MutableGlobal); ok {
			s.globals = append(s.globals, g)
			s.values = append(s.values, g.Get())
		}
	}
	return s
}

// renew makes the instance ready for the next batch; false says that it cannot be used again: its state is to be fresh,
// or its memory has grown, which cannot be undone.
func (i *instance) renew() bool {
	if i.version.options.Manifest.State == manifest.Fresh {
		return false
	}
	if i.snapshot == nil {
		return true
	}
	memory := i.module.Memory()
	if int(memory.Size()) != len(i.snapshot.memory) {
		return false
	}
	memory.Write(0, i.snapshot.memory)
	for k, g := range i.snapshot.globals {
		g.Set(i.snapshot.values[k])
	}
	return true
}
