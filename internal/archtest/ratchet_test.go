package archtest

import (
	"fmt"
	"go/ast"
	"slices"
	"testing"
)

// A type stays small enough to be understood whole, an interface to be implemented by a stranger.
const maxMethods, maxFields, maxInterfaceMethods = 60, 30, 10

// tooLarge are the types that were over the limits when these were set, by package and name, each with its sizes. A number here only goes
// down.
var tooLarge = map[string]sizes{
	"engine/shard/machine.Record": {methods: 16, fields: 36},
	// Answers are flat on purpose: these are the documented shapes.
	"engine/queue.Submission": {methods: 0, fields: 38},
	"sdk/api.Stats":           {methods: 0, fields: 38},
	"sdk/api.Submission":      {methods: 0, fields: 40},
	"sdk/wire.Submission":     {methods: 2, fields: 39},
	// One method for each operation of the API, so that a caller finds all of them in one place.
	"sdk/client.Client": {methods: 140, fields: 10},
}

// sizes count a type's methods, the struct's fields, and the methods that an interface asks for.
type sizes struct{ methods, fields, asks int }

func (x sizes) fits() bool {
	return x.methods <= maxMethods && x.fields <= maxFields && x.asks <= maxInterfaceMethods
}

// Types do not grow beyond what one can hold in mind. Types that have may only shrink.
func TestTypesStaySmall(t *testing.T) {
	t.Parallel()
	report(t, checkSizes(measured(need(t, sources)), tooLarge),
		"split the type by what changes together; where one shrank, lower its number in tooLarge, or take it out if it fits now")
}

// measured is the size of every type outside tests.
func measured(all []source) map[string]sizes {
	found := map[string]sizes{}
	for _, s := range all {
		if s.test {
			continue
		}
		for _, decl := range s.file.Decls {
			switch d := decl.(type) {
			case *ast.FuncDecl:
				if d.Recv != nil {
					name := s.pkg + "." + receiverName(d.Recv.List[0].Type)
					x := found[name]
					x.methods++
					found[name] = x
				}
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					if kind, ok := spec.(*ast.TypeSpec); ok {
						name := s.pkg + "." + kind.Name.Name
						x := found[name]
						switch of := kind.Type.(type) {
						case *ast.StructType:
							x.fields = count(of.Fields)
						case *ast.InterfaceType:
							x.asks = count(of.Methods)
						}
						found[name] = x
					}
				}
			}
		}
	}
	return found
}

// receiverName is that of the type below a pointer and type parameters.
func receiverName(expr ast.Expr) (name string) {
	ast.Inspect(expr, func(node ast.Node) bool {
		if id, ok := node.(*ast.Ident); ok && name == "" {
			name = id.Name
		}
		return name == ""
	})
	return name
}

// count is how many fields are named or embedded.
func count(list *ast.FieldList) (n int) {
	for _, field := range list.List {
		n += max(1, len(field.Names))
	}
	return n
}

func checkSizes(found, listed map[string]sizes) (findings []string) {
	for name, got := range found {
		switch want, is := listed[name]; {
		case !is && !got.fits():
			findings = append(findings, fmt.Sprintf("%s has %+v; at most %+v", name, got, sizes{maxMethods, maxFields, maxInterfaceMethods}))
		case is && (got.methods > want.methods || got.fields > want.fields || got.asks > want.asks):
			findings = append(findings, fmt.Sprintf("%s grew to %+v; it is listed with %+v and may only shrink", name, got, want))
		case is && (got != want || got.fits()):
			findings = append(findings, fmt.Sprintf("%s shrank to %+v; it is still listed with %+v", name, got, want))
		}
	}
	for name := range listed {
		if _, is := found[name]; !is {
			findings = append(findings, name+" is listed as too large, but there is no such type")
		}
	}
	slices.Sort(findings)
	return findings
}

// The rule finds planted violations.
func TestRatchetBites(t *testing.T) {
	t.Parallel()
	s := planted(t, "x.go", "x", "package x\ntype T[K any] struct { a, b int; error }\nfunc (*T[K]) M() {}\nfunc (T[K]) N() {}\ntype I interface { A(); B() }\n")
	found := measured([]source{s})
	if found["x.T"] != (sizes{2, 3, 0}) || found["x.I"] != (sizes{0, 0, 2}) {
		t.Errorf("measured %+v, want two methods and three fields of T, and two methods of I", found)
	}
	big := sizes{maxMethods + 2, 1, 0}
	less := sizes{maxMethods + 1, 1, 0}
	for _, c := range []struct {
		found, listed map[string]sizes
		want          int
	}{
		{map[string]sizes{"x.T": big}, nil, 1},
		{map[string]sizes{"x.T": big}, map[string]sizes{"x.T": big}, 0},
		{map[string]sizes{"x.T": big}, map[string]sizes{"x.T": less}, 1},
		{map[string]sizes{"x.T": less}, map[string]sizes{"x.T": big}, 1},
		{map[string]sizes{"x.T": {1, 1, 0}}, map[string]sizes{"x.T": {1, 1, 0}}, 1},
		{nil, map[string]sizes{"x.T": big}, 1},
	} {
		if got := checkSizes(c.found, c.listed); len(got) != c.want {
			t.Errorf("checkSizes(%+v, %+v) found %q, want %d", c.found, c.listed, got, c.want)
		}
	}
}
