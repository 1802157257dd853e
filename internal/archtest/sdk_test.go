package archtest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// dependency is the part of `go list -deps -json` that says where a package is from.
type dependency struct {
	ImportPath string
	Standard   bool
	CgoFiles   []string
}

// A package of sdk imports only the standard library and other packages of sdk: nothing of the server, no one else's module and no C.
func TestSDKBringsNothing(t *testing.T) {
	t.Parallel()
	report(t, checkSDK(dependencies(t, ".", "./sdk/..."), nil), "have the caller give it, or make it a module of its own as sdk/objects is")
}

// sdk/objects imports gocloud.dev without a cloud's SDK, and still nothing of the server and no C. Its program imports the SDKs, and
// nothing of the server either.
func TestObjectsBringsNoServer(t *testing.T) {
	t.Parallel()
	clouds := []string{"github.com/aws", "github.com/Azure", "cloud.google.com"}
	advice := "import a driver where the program is, which is cmd/quern-objects or the caller's"
	report(t, checkObjects(dependencies(t, "sdk/objects", "."), clouds), advice)
	program := dependencies(t, "sdk/objects", "./cmd/...")
	report(t, checkObjects(program, nil), advice)
	for _, cloud := range clouds {
		if !slices.ContainsFunc(program, func(d dependency) bool { return below(d.ImportPath, []string{cloud}) }) {
			t.Errorf("quern-objects has nothing of %s: is it still what a driver imports?", cloud)
		}
	}
}

func checkObjects(all []dependency, refused []string) (findings []string) {
	for _, d := range all {
		if ours := strings.HasPrefix(d.ImportPath, module+"/"); ours && !strings.HasPrefix(d.ImportPath, module+"/sdk/") ||
			below(d.ImportPath, refused) || !d.Standard && len(d.CgoFiles) > 0 {
			findings = append(findings, "sdk/objects brings "+d.ImportPath)
		}
	}
	return findings
}

// dependencies are the packages that match the pattern in this folder, and all that they import.
func dependencies(t *testing.T, dir, pattern string) (all []dependency) {
	t.Helper()
	list := exec.Command("go", "list", "-deps", "-json=ImportPath,Standard,CgoFiles", pattern)
	list.Dir = filepath.Join(need(t, root), dir)
	out, err := list.Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			t.Fatalf("go list in %s: %v: %s", dir, err, exit.Stderr)
		}
		t.Fatal(err)
	}
	for decoder := json.NewDecoder(strings.NewReader(string(out))); ; {
		var d dependency
		if err := decoder.Decode(&d); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, d)
	}
}

func checkSDK(all []dependency, allowed []string) (findings []string) {
	ours := 0
	for _, d := range all {
		switch {
		case d.Standard:
		case len(d.CgoFiles) > 0:
			findings = append(findings, fmt.Sprintf("%s is C: %v", d.ImportPath, d.CgoFiles))
		case strings.HasPrefix(d.ImportPath, module+"/sdk/"):
			ours++
		case !below(d.ImportPath, allowed):
			findings = append(findings, "a package of sdk brings "+d.ImportPath)
		}
	}
	if ours == 0 {
		findings = append(findings, "go list named no package of sdk")
	}
	slices.Sort(findings)
	return findings
}

// The rule finds planted violations.
func TestSDKRuleBites(t *testing.T) {
	t.Parallel()
	got := checkSDK([]dependency{
		{ImportPath: "net", Standard: true, CgoFiles: []string{"cgo_unix.go"}},
		{ImportPath: module + "/sdk/client"},
		{ImportPath: module + "/engine/queue"},
		{ImportPath: "example.com/other/x"},
		{ImportPath: "example.com/allowed/x"},
		{ImportPath: module + "/sdk/c", CgoFiles: []string{"c.go"}},
	}, []string{"example.com/allowed"})
	if len(got) != 3 {
		t.Errorf("got %q, want three findings: the engine, the other module, and C", got)
	}
}
