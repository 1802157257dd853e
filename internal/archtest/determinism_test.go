package archtest

import (
	"fmt"
	"go/ast"
	"go/token"
	"slices"
	"strconv"
	"testing"
)

// core are the packages that must behave the same for the same input, always: they read no clock, draw no chance of their own
// and look at no environment. Time and seeds are handed to them.
var core = []string{
	"engine/queue", "engine/strategy", "engine/backlog", "engine/reserver", "engine/shard", "engine/journal", "engine/fair", "engine/schedule",
}

// forbidden lists, by import path, the names that core may not use. "*" means every function of the package but the makers
// of a generator from a given seed.
var forbidden = map[string][]string{
	"time":         {"Now", "Since", "Until", "Sleep", "Tick"},
	"math/rand":    {"*"},
	"math/rand/v2": {"*"},
	"crypto/rand":  {"*"},
	"os":           {"Getenv", "LookupEnv", "Environ", "Getpid", "Hostname"},
}

var seeded = []string{"New", "NewPCG", "NewChaCha8", "NewSource", "NewZipf", "Rand", "PCG", "ChaCha8", "Source", "Zipf"}

// The core reads no clock, no global chance and no environment.
func TestCoreIsDeterministic(t *testing.T) {
	t.Parallel()
	var findings []string
	for _, s := range need(t, sources) {
		if !s.test && below(s.pkg, core) && s.pkg != "engine/journal/sqlitelog" {
			findings = append(findings, checkClock(s)...)
		}
	}
	report(t, findings, "take the moment (queue.Time) or the seed as an argument, or as a function given at construction; only cmd knows the real ones")
}

// Nothing below cmd runs before main, and nothing below cmd has package variables that change.
func TestNoHiddenState(t *testing.T) {
	t.Parallel()
	var findings []string
	byPackage := map[string][]source{}
	for _, s := range need(t, sources) {
		if !s.test && !below(s.pkg, []string{"cmd", "examples"}) {
			byPackage[s.pkg] = append(byPackage[s.pkg], s)
		}
	}
	for _, files := range byPackage {
		findings = append(findings, checkState(files)...)
	}
	slices.Sort(findings)
	report(t, findings, "make it a field of the type that owns it, built by New or Open and passed on; a registry is a map literal")
}

// checkClock finds uses of forbidden names.
func checkClock(s source) (findings []string) {
	names := map[string]string{} // local package name -> import path
	for _, spec := range s.file.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if err != nil || forbidden[imported] == nil {
			continue
		}
		local := map[string]string{"math/rand": "rand", "math/rand/v2": "rand", "crypto/rand": "rand"}[imported]
		if local == "" {
			local = imported
		}
		if spec.Name != nil {
			local = spec.Name.Name
		}
		names[local] = imported
	}
	ast.Inspect(s.file, func(node ast.Node) bool {
		selector, ok := node.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		pkg, ok := selector.X.(*ast.Ident)
		if !ok || names[pkg.Name] == "" {
			return true
		}
		banned, used := forbidden[names[pkg.Name]], selector.Sel.Name
		if slices.Contains(banned, used) || slices.Contains(banned, "*") && !slices.Contains(seeded, used) {
			findings = append(findings, fmt.Sprintf("%s uses %s.%s", s.at(node), pkg.Name, used))
		}
		return true
	})
	return findings
}

// checkState finds init functions and writes to package variables within the files of one package. It goes by names: a
// function that declares a local of the same name is left alone.
func checkState(files []source) (findings []string) {
	globals := map[string]bool{}
	for _, s := range files {
		for _, decl := range s.file.Decls {
			if general, ok := decl.(*ast.GenDecl); ok && general.Tok == token.VAR {
				for _, spec := range general.Specs {
					for _, name := range spec.(*ast.ValueSpec).Names {
						globals[name.Name] = name.Name != "_"
					}
				}
			}
		}
	}
	for _, s := range files {
		for _, decl := range s.file.Decls {
			fn, ok := decl.(*ast.FuncDecl)
			if !ok || fn.Body == nil {
				continue
			}
			if fn.Name.Name == "init" && fn.Recv == nil {
				findings = append(findings, s.at(fn)+" is an init function")
			}
			local := localNames(fn)
			for _, name := range written(fn.Body) {
				if globals[name.Name] && !local[name.Name] {
					findings = append(findings, fmt.Sprintf("%s changes the package variable %s", s.at(name), name.Name))
				}
			}
		}
	}
	return findings
}

// localNames are the names that fn declares: receiver, parameters, results, := and var, ranges.
func localNames(fn *ast.FuncDecl) map[string]bool {
	names := map[string]bool{}
	add := func(expressions ...ast.Expr) {
		for _, e := range expressions {
			if name, ok := e.(*ast.Ident); ok {
				names[name.Name] = true
			}
		}
	}
	ast.Inspect(fn, func(node ast.Node) bool {
		switch n := node.(type) {
		case *ast.Field:
			for _, name := range n.Names {
				add(name)
			}
		case *ast.AssignStmt:
			if n.Tok == token.DEFINE {
				add(n.Lhs...)
			}
		case *ast.RangeStmt:
			if n.Tok == token.DEFINE {
				add(n.Key, n.Value)
			}
		case *ast.ValueSpec:
			for _, name := range n.Names {
				add(name)
			}
		}
		return true
	})
	return names
}

// written lists the variables at the root of every assignment, increment and taken address of a field or element.
func written(body *ast.BlockStmt) (names []*ast.Ident) {
	add := func(e ast.Expr) {
		for {
			switch x := e.(type) {
			case *ast.Ident:
				names = append(names, x)
				return
			case *ast.IndexExpr:
				e = x.X
			case *ast.SelectorExpr:
				e = x.X
			case *ast.StarExpr:
				e = x.X
			case *ast.ParenExpr:
				e = x.X
			default:
				return
			}
		}
	}
	ast.Inspect(body, func(node ast.Node) bool {
		switch n := node.(type) {
		case *ast.AssignStmt:
			if n.Tok != token.DEFINE {
				for _, left := range n.Lhs {
					add(left)
				}
			}
		case *ast.IncDecStmt:
			add(n.X)
		}
		return true
	})
	return names
}

// The rules see what they are for.
func TestDeterminismRulesBite(t *testing.T) {
	t.Parallel()
	s := planted(t, "engine/shard/x.go", "engine/shard", `package shard
import ("math/rand/v2"; clock "time"; "os")
var count, table = 0, map[string]int{}
var fixed = 1
func init() {}
func f(r *rand.Rand) {
	_ = rand.New(rand.NewPCG(1, 2))
	_ = rand.IntN(3)
	_ = clock.Now()
	_ = clock.UnixMilli(5)
	_ = os.Getenv("X")
	count++
	table["x"] = 1
	fixed := 2
	fixed = 3
	_ = fixed
}`)
	if got := checkClock(s); len(got) != 3 {
		t.Errorf("checkClock found %q, want the three uses rand.IntN, clock.Now and os.Getenv", got)
	}
	if got := checkState([]source{s}); len(got) != 3 {
		t.Errorf("checkState found %q, want init and the writes to count and table", got)
	}
}
