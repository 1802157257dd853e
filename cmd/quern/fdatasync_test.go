package main

import (
	"debug/elf"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// A binary built by make syncs files by fdatasync. SQLite uses fsync unless its build says that fdatasync exists.
func TestSyncsByFdatasync(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" || !strings.Contains(os.Getenv("CGO_CFLAGS"), "HAVE_FDATASYNC") {
		t.Skip("not built by make on Linux")
	}
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	file, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	symbols, err := file.ImportedSymbols()
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(symbols, func(s elf.ImportedSymbol) bool { return s.Name == "fdatasync" }) {
		t.Error("the binary does not import fdatasync")
	}
}
