package archtest

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// The code that is generated from the OpenAPI document for the Python client is current.
func TestGeneratedPythonIsCurrent(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("Python, which generates its client, is not here")
	}
	check := exec.Command("python3", "sdk/python/generate.py", "--check")
	check.Dir = need(t, root)
	if out, err := check.CombinedOutput(); err != nil {
		t.Errorf("%s%v\nwhat to do: python3 sdk/python/generate.py (make golden does it too)", out, err)
	}
}

// The code that is generated from the OpenAPI document for the TypeScript client is current.
func TestGeneratedTypeScriptIsCurrent(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("node"); err != nil {
		t.Skip("Node.js, which generates the TypeScript client, is not here")
	}
	top := need(t, root)
	made := t.TempDir()
	generate := exec.Command("node", "sdk/typescript/generate.mjs", "web/testdata/openapi.json", made)
	generate.Dir = top
	if out, err := generate.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, name := range []string{"types.ts", "calls.ts"} {
		want, err := os.ReadFile(filepath.Join(made, name))
		if err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(filepath.Join(top, "sdk/typescript/src/generated", name))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("sdk/typescript/src/generated/%s is not what web/testdata/openapi.json makes\nwhat to do: node sdk/typescript/generate.mjs web/testdata/openapi.json sdk/typescript/src/generated (make golden does it too)", name)
		}
	}
}
