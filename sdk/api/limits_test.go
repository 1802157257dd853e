package api

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
)

// declared are the constants of limits.go with the texts of their values, and the keys of their table with the same.
func declared(t *testing.T) (constants, table map[string]string) {
	t.Helper()
	source, err := os.ReadFile("limits.go")
	if err != nil {
		t.Fatal(err)
	}
	files := token.NewFileSet()
	parsed, err := parser.ParseFile(files, "limits.go", source, 0)
	if err != nil {
		t.Fatal(err)
	}
	text := func(n ast.Node) string {
		return string(source[files.Position(n.Pos()).Offset:files.Position(n.End()).Offset])
	}
	constants, table = map[string]string{}, map[string]string{}
	ast.Inspect(parsed, func(n ast.Node) bool {
		spec, is := n.(*ast.ValueSpec)
		switch {
		case !is || len(spec.Values) != 1:
		case spec.Names[0].Name == "limits":
			for _, pair := range spec.Values[0].(*ast.CompositeLit).Elts {
				pair := pair.(*ast.KeyValueExpr)
				table[strings.Trim(text(pair.Key), `"`)] = text(pair.Value)
			}
		case ast.IsExported(spec.Names[0].Name):
			constants[spec.Names[0].Name] = text(spec.Values[0])
		}
		return true
	})
	return constants, table
}

// Tags can name each limit, by the name of its constant.
func TestLimitsHaveTheirNames(t *testing.T) {
	t.Parallel()
	constants, table := declared(t)
	for name := range constants {
		if table[name] != name {
			t.Errorf("the table of limits has %q under %q", table[name], name)
		}
	}
	if len(table) != len(constants) {
		t.Errorf("the table has %d limits, want the %d constants", len(table), len(constants))
	}
}

// A limit is written once: as a constant of this package. Tags name it, with the ends of a share and 1 as the only numbers, and where the
// server or a client has a constant of the same name, or of that name in small letters, it is that one.
func TestLimitsAreWrittenOnce(t *testing.T) {
	t.Parallel()
	constants, _ := declared(t)
	tags := regexp.MustCompile("limit:\"([^\"]*)\"")
	number := regexp.MustCompile(`^[-+*/<() 0-9_.x]*[0-9][-+*/<() 0-9_.a-fx]*$`)
	var files []string
	for _, folder := range []string{".", "../wire", "../client", "../../engine", "../../plugins", "../../web", "../../cmd"} {
		err := filepath.WalkDir(folder, func(path string, _ os.DirEntry, err error) error {
			if strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go") && path != "limits.go" {
				files = append(files, path)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if len(files) < 500 {
		t.Fatalf("%d files were found, want those of the server too", len(files))
	}
	constant := regexp.MustCompile(`(?m)^\t?(?:const )?([A-Za-z]+)\s+=\s+([^/\n]+)`)
	for _, path := range files {
		source, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, tag := range tags.FindAllSubmatch(source, -1) {
			for _, end := range strings.Split(string(tag[1]), "..") {
				if number.MatchString(end) && end != "0" && end != "1" && end != "100" {
					t.Errorf("%s: the tag %s has a number; give it a name in limits.go", path, tag[0])
				}
			}
		}
		for _, found := range constant.FindAllSubmatch(source, -1) {
			name, value := string(found[1]), strings.TrimSpace(string(found[2]))
			for _, of := range []string{name, strings.ToUpper(name[:1]) + name[1:]} {
				if constants[of] != "" && number.MatchString(value) {
					t.Errorf("%s: %s is %s; want api.%s", path, name, value, of)
				}
			}
		}
	}
}

// A tag that names an unknown limit or list stops the server's start, so it is noticed.
func TestLimitsOfTags(t *testing.T) {
	t.Parallel()
	type fields struct {
		Number int      `limit:"-MaxPriority..MaxReserve"`
		List   []string `limit:"..MaxBatch"`
		Name   string   `names:"bulk states"`
		Free   string
		Wrong  int    `limit:"0..MaxNothing"`
		None   string `names:"nothing"`
	}
	of := reflect.TypeFor[fields]()
	if l := LimitOf(of.Field(0)); *l.Least != -MaxPriority || *l.Most != MaxReserve || l.Names != nil {
		t.Errorf("got %v to %v, names %v", *l.Least, *l.Most, l.Names)
	}
	if l := LimitOf(of.Field(1)); l.Least != nil || *l.Most != MaxBatch {
		t.Errorf("got %v to %v", l.Least, *l.Most)
	}
	if l := LimitOf(of.Field(2)); len(l.Names) != 4 || l.Most != nil {
		t.Errorf("got the names %q", l.Names)
	}
	if l := LimitOf(of.Field(3)); !reflect.DeepEqual(l, Limit{}) {
		t.Errorf("a field without tags is limited to %+v", l)
	}
	for _, i := range []int{4, 5} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("the tag %s is taken", of.Field(i).Tag)
				}
			}()
			LimitOf(of.Field(i))
		}()
	}
}
