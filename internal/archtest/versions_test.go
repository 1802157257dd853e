package archtest

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

// versionAt says where a file of the repository has the version of its subject. The first group is the version.
type versionAt struct {
	files   string // a pattern of paths
	version *regexp.Regexp
}

// versionsAt are all such places. A change of the version changes them all.
var versionsAt = []versionAt{
	{"CHANGELOG.md", regexp.MustCompile(`(?m)^## (\d\S*)`)},
	{"README.md", regexp.MustCompile(`\*\*Status:\*\* version (\d[^ ,]*)`)},
	// A build between two releases says so with the suffix.
	{"cmd/quern/version.go", regexp.MustCompile(`(?m)^const development = "(.+)-dev"$`)},
	{"sdk/python/src/quern/__init__.py", regexp.MustCompile(`(?m)^__version__ = "(.+)"$`)},
	{"sdk/*/package.json", regexp.MustCompile(`(?m)^  "version": "(.+)"`)},
	{"sdk/*/package-lock.json", regexp.MustCompile(`"name": "@?quern.*\n\s*"version": "(.+)"`)},
	{"sdk/*/Cargo.toml", regexp.MustCompile(`(?m)^\[package\]\nname = .*\nversion = "(.+)"$`)},
	{"sdk/*/Cargo.lock", regexp.MustCompile(`(?m)^name = "quern.*"\nversion = "(.+)"$`)},
}

// unpublished are the packages that no one installs: they have no version.
var unpublished = map[string]bool{"sdk/openapi/package.json": true, "sdk/openapi/package-lock.json": true}

// The server, the clients and the kits for plugins are released together: all have the version of the newest entry of the changelog.
func TestOneVersion(t *testing.T) {
	t.Parallel()
	top, want := need(t, root), ""
	for _, at := range versionsAt {
		paths, err := filepath.Glob(filepath.Join(top, at.files))
		if err != nil || len(paths) == 0 {
			t.Errorf("%s: no such file, %v; correct the list in this test", at.files, err)
		}
		for _, path := range paths {
			name, _ := filepath.Rel(top, path)
			if unpublished[filepath.ToSlash(name)] {
				continue
			}
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			found := at.version.FindAllSubmatch(text, -1)
			if len(found) == 0 {
				t.Errorf("%s has no version where %s looks for it", name, at.version)
			}
			if at.files == "CHANGELOG.md" {
				found, want = found[:1], string(found[0][1]) // below it are older ones
			}
			for _, version := range found {
				if got := string(version[1]); got != want {
					t.Errorf("%s has the version %s, but the newest entry of CHANGELOG.md is %s; what to do: give both the same", name, got, want)
				}
			}
		}
	}
}
