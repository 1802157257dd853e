package reserver

import (
	"testing"

	"pgregory.net/rapid"
)

// The table holds what a map holds, through growth, shrinking and keys that collide.
func TestTableModel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var table table
		model := map[uint64]uint32{}
		key := rapid.Custom(func(t *rapid.T) uint64 {
			return rapid.Uint64Max(7).Draw(t, "seq")<<32 | rapid.Uint64Max(99).Draw(t, "index")
		})
		for range rapid.IntRange(0, 600).Draw(t, "steps") {
			k := key.Draw(t, "key")
			if _, there := model[k]; there {
				delete(model, k)
				table.drop(k)
			} else {
				slot := rapid.Uint32Max(1<<32-2).Draw(t, "slot")
				model[k] = slot
				table.put(k, slot)
			}
			if table.count != len(model) {
				t.Fatalf("count %d, want %d", table.count, len(model))
			}
		}
		for seq := range uint64(8) {
			for index := range uint64(100) {
				slot, ok := table.find(seq<<32 | index)
				if want, there := model[seq<<32|index]; ok != there || ok && slot != want {
					t.Fatalf("find(%d, %d) = %d, %v; want %d, %v", seq, index, slot, ok, want, there)
				}
			}
		}
	})
}

// A burst of reservations does not keep its memory for ever.
func TestTableShrinks(t *testing.T) {
	t.Parallel()
	var table table
	for k := range uint64(100_000) {
		table.put(k<<20, uint32(k))
	}
	for k := range uint64(99_900) {
		table.drop(k << 20)
	}
	if len(table.entries) > 4096 {
		t.Errorf("%d entries for 100 keys", len(table.entries))
	}
	for k := uint64(99_900); k < 100_000; k++ {
		if slot, ok := table.find(k << 20); !ok || slot != uint32(k) {
			t.Fatalf("find(%d) = %d, %v", k, slot, ok)
		}
	}
}

// Growing and shrinking are spread over many puts and drops: none of them takes over more than a bounded part of a large table.
func TestTableMovesBitByBit(t *testing.T) {
	t.Parallel()
	var table table
	most := 0
	looked := func(do func()) {
		before, moving := table.left, table.old
		do()
		if moving != nil && (table.old == nil || &table.old[0] == &moving[0]) {
			most = max(most, before-table.left)
		} else if moving != nil {
			t.Fatalf("a move of %d entries began before the one of %d was over", len(table.old), len(moving))
		}
	}
	const keys = 200_000
	for k := range uint64(keys) {
		looked(func() { table.put(k<<32|k, uint32(k)) })
	}
	for k := range uint64(keys) {
		if slot, ok := table.find(k<<32 | k); !ok || slot != uint32(k) {
			t.Fatalf("find(%d) = %d, %v", k, slot, ok)
		}
		looked(func() { table.drop(k<<32 | k) })
	}
	if most == 0 || most > 1000 {
		t.Errorf("one call looked at %d places of the old array, want some and at most 1,000", most)
	}
}
