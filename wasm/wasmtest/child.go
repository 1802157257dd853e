package wasmtest

import "os"

// Child is the command that starts this test binary as its own compiling child: the real thing under real limits. TestMain hands such a
// start to compile.Child. A compiler gives its child an environment of its own; env adds how the race detector is to end.
func Child(arg string) []string {
	self, err := os.Executable()
	if err != nil {
		panic(err)
	}
	return []string{"/usr/bin/env", "GORACE=" + os.Getenv("GORACE"), self, arg}
}
