// Command sbom prints what a Go binary is made of as CycloneDX 1.5 JSON: `go run ./internal/sbom VERSION BINARY`. The modules are those
// that the linker wrote into the binary, so that the list is of this file and not of what a go.mod allows. SQLite, which is C within a
// module, is listed with that module. It has no time and no serial number: the same binary has the same list.
package main

import (
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: sbom VERSION BINARY")
		os.Exit(2)
	}
	if err := write(os.Stdout, os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "sbom:", err)
		os.Exit(1)
	}
}

// document is the part of a CycloneDX document that there is something to say in.
type document struct {
	Format       string       `json:"bomFormat"`
	Spec         string       `json:"specVersion"`
	Version      int          `json:"version"` // of the document
	Metadata     metadata     `json:"metadata"`
	Components   []component  `json:"components"`
	Dependencies []dependency `json:"dependencies"`
}

type metadata struct {
	Component component `json:"component"`
}

type component struct {
	Type    string `json:"type"`
	Ref     string `json:"bom-ref"`
	Name    string `json:"name"`
	Version string `json:"version"`
	PURL    string `json:"purl,omitempty"`
	Hashes  []hash `json:"hashes,omitempty"`
}

type hash struct {
	Algorithm string `json:"alg"`
	Content   string `json:"content"`
}

type dependency struct {
	Ref       string   `json:"ref"`
	DependsOn []string `json:"dependsOn"`
}

func write(to io.Writer, version, path string) error {
	info, err := buildinfo.ReadFile(path)
	if err != nil {
		return err
	}
	sum, err := sumOf(path)
	if err != nil {
		return err
	}
	program := component{Type: "application", Ref: filepath.Base(path), Name: info.Main.Path, Version: version,
		PURL: "pkg:golang/" + info.Main.Path + "@" + version, Hashes: []hash{{"SHA-256", sum}}}
	uses := dependency{Ref: program.Ref}
	components := []component{{Type: "library", Ref: "stdlib", Name: "stdlib", Version: info.GoVersion,
		PURL: "pkg:golang/stdlib@" + strings.TrimPrefix(info.GoVersion, "go")}}
	for _, module := range info.Deps {
		one, err := library(module)
		if err != nil {
			return err
		}
		components = append(components, one)
	}
	for _, one := range components {
		uses.DependsOn = append(uses.DependsOn, one.Ref)
	}
	encoder := json.NewEncoder(to)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	return encoder.Encode(document{"CycloneDX", "1.5", 1, metadata{program}, components, []dependency{uses}})
}

// library is a module with the sum that go.sum has of it, h1: SHA-256 over the names and sums of its files.
func library(module *debug.Module) (component, error) {
	if module.Replace != nil {
		module = module.Replace
	}
	purl := "pkg:golang/" + module.Path + "@" + module.Version
	one := component{Type: "library", Ref: purl, Name: module.Path, Version: module.Version, PURL: purl}
	if encoded, ok := strings.CutPrefix(module.Sum, "h1:"); ok {
		sum, err := base64.StdEncoding.DecodeString(encoded)
		if err != nil {
			return component{}, fmt.Errorf("the sum of %s: %w", module.Path, err)
		}
		one.Hashes = []hash{{"SHA-256", hex.EncodeToString(sum)}}
	}
	return one, nil
}

func sumOf(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer file.Close()
	h := sha256.New()
	if _, err := io.Copy(h, file); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
