package main

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Building takes longer than most tests do, so mutants are built together where that is possible: the function that a mutant changes is
// there twice, once with the change, and the one that all others call asks which of them is on.

// onVariable says in the environment of the tests which mutant is on, by its number; none: the code is as it is.
const onVariable = "QUERN_MUTANT"

const onText = `package %s

import (
	"os"
	"strconv"
)

var mutantOn, _ = strconv.Atoi(os.Getenv("` + onVariable + `"))
`

// variant is a function as a mutant has it.
type variant struct {
	number int
	text   string // under its name in the joined file
}

// joined is a file with the mutants of it, all of them.
type joined struct {
	path, code string
	decls      []ast.Decl
	variants   map[*ast.FuncDecl][]variant
}

func joinFile(path string) (*joined, error) {
	code, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	j := &joined{path: path, code: string(code), variants: map[*ast.FuncDecl][]variant{}}
	_, j.decls, err = declsOf(path, j.code)
	return j, err
}

// declsOf are the declarations of a file. Their positions are offsets in it, from 1.
func declsOf(path, code string) (pkg string, decls []ast.Decl, err error) {
	file, err := parser.ParseFile(token.NewFileSet(), path, code, parser.SkipObjectResolution)
	if err != nil {
		return "", nil, err
	}
	return file.Name.Name, file.Decls, nil
}

func piece(code string, from, to token.Pos) string { return code[from-1 : to-1] }

// add takes a mutant in; false: it changes more than the body of one function, or that function has type parameters.
func (j *joined) add(number int, changed string) bool {
	_, decls, err := declsOf(j.path, changed)
	if err != nil || len(decls) != len(j.decls) {
		return false
	}
	var old, mutated *ast.FuncDecl
	for i := range decls {
		a, b := j.decls[i], decls[i]
		if piece(j.code, a.Pos(), a.End()) == piece(changed, b.Pos(), b.End()) {
			continue
		}
		x, is := a.(*ast.FuncDecl)
		y, still := b.(*ast.FuncDecl)
		if !is || !still || old != nil {
			return false
		}
		old, mutated = x, y
	}
	if old == nil || generic(old) || old.Name.Name == "init" || piece(j.code, old.Pos(), old.Body.Lbrace) != piece(changed, mutated.Pos(), mutated.Body.Lbrace) {
		return false
	}
	j.variants[old] = append(j.variants[old], variant{number, renamed(changed, mutated, number)})
	return true
}

func generic(f *ast.FuncDecl) bool {
	found := f.Type.TypeParams != nil
	if f.Recv != nil {
		ast.Inspect(f.Recv, func(n ast.Node) bool {
			switch n.(type) {
			case *ast.IndexExpr, *ast.IndexListExpr:
				found = true
			}
			return true
		})
	}
	return found
}

func nameOf(f *ast.FuncDecl, number int) string {
	return fmt.Sprintf("mutant%d_%s", number, f.Name.Name)
}

func renamed(code string, f *ast.FuncDecl, number int) string {
	return piece(code, f.Pos(), f.Name.Pos()) + nameOf(f, number) + piece(code, f.Name.End(), f.End())
}

// text is the joined file. Lines keep their numbers: additions stand behind the rest.
func (j *joined) text() string {
	var b, added strings.Builder
	at := token.Pos(1)
	for _, decl := range j.decls {
		f, is := decl.(*ast.FuncDecl)
		if !is || len(j.variants[f]) == 0 {
			continue
		}
		b.WriteString(piece(j.code, at, f.Pos()) + renamed(j.code, f, 0))
		at = f.End()
		added.WriteString("\n" + j.chooser(f))
		for _, v := range j.variants[f] {
			added.WriteString("\n" + v.text + "\n")
		}
	}
	b.WriteString(piece(j.code, at, token.Pos(len(j.code)+1)))
	return b.String() + added.String()
}

// chooser is the function under its own name: it calls the variant that is on.
func (j *joined) chooser(f *ast.FuncDecl) string {
	receiver, call := "", ""
	if f.Recv != nil {
		receiver, call = "(r0 "+piece(j.code, f.Recv.List[0].Type.Pos(), f.Recv.List[0].Type.End())+") ", "r0."
	}
	var parameters, arguments []string
	for _, field := range f.Type.Params.List {
		for range max(1, len(field.Names)) {
			name := "p" + strconv.Itoa(len(parameters))
			parameters = append(parameters, name+" "+piece(j.code, field.Type.Pos(), field.Type.End()))
			if _, more := field.Type.(*ast.Ellipsis); more {
				name += "..."
			}
			arguments = append(arguments, name)
		}
	}
	results, give := "", "%s(%s); return"
	if f.Type.Results != nil {
		results, give = piece(j.code, f.Type.Results.Pos(), f.Type.Results.End())+" ", "return %s(%s)"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "func %s%s(%s) %s{\n\tswitch mutantOn {\n", receiver, f.Name.Name, strings.Join(parameters, ", "), results)
	for _, v := range j.variants[f] {
		fmt.Fprintf(&b, "\tcase %d:\n\t\t"+give+"\n", v.number, call+nameOf(f, v.number), strings.Join(arguments, ", "))
	}
	fmt.Fprintf(&b, "\t}\n\t"+give+"\n}\n", call+nameOf(f, 0), strings.Join(arguments, ", "))
	return b.String()
}

// join has mutants built together, and says under which number each is. Those that do not build, or cannot be joined, have none.
func (b *build) join(list []*mutant) (numbers map[*mutant]int, err error) {
	check, err := newChecker()
	if err != nil {
		return nil, err
	}
	numbers = map[*mutant]int{}
	files := map[string]*joined{}
	for i, m := range list {
		j := files[m.file]
		if j == nil {
			if j, err = joinFile(m.file); err != nil {
				return nil, err
			}
			files[m.file] = j
		}
		changed, fits := m.apply(j.code)
		if fits && check.types(m.file, changed) == nil && j.add(i+1, changed) {
			numbers[m] = i + 1
		}
	}
	for path, j := range files {
		pkg, _, err := declsOf(path, j.code)
		if err := errors.Join(err, b.replace(path, j.text()), b.replace(filepath.Join(filepath.Dir(path), "mutant_on.go"), fmt.Sprintf(onText, pkg))); err != nil {
			return nil, err
		}
	}
	return numbers, nil
}
