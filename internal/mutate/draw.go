package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// change is a piece of a file and what may stand there instead.
type change struct {
	from, to int
	instead  string
	what     string
}

// drawAll prints mutants of files: each has to be looked at, given its tests, and put into a list.
func drawAll(files []string, n int, seed uint64) error {
	for _, path := range files {
		code, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		all, err := changesOf(path, string(code))
		if err != nil {
			return err
		}
		r := rand.New(rand.NewPCG(seed, uint64(len(code))))
		r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		all = all[:min(n, len(all))]
		slices.SortFunc(all, func(a, b change) int { return a.from - b.from })
		fmt.Printf("file %s\n\n", path)
		for i, c := range all {
			name := strings.TrimSuffix(filepath.Base(path), ".go")
			fmt.Printf("mutant %s.%s.%d\n%s\n", name, c.what, i+1, c.text(string(code)))
		}
	}
	return nil
}

// text is the change in whole lines, with this many before them that they are in the file once.
func (c *change) text(code string) string {
	from, to := strings.LastIndexByte(code[:c.from], '\n')+1, c.to+strings.IndexByte(code[c.to:], '\n')+1
	for strings.Count("\n"+code, "\n"+code[from:to]) > 1 && from > 0 {
		from = strings.LastIndexByte(code[:from-1], '\n') + 1
	}
	var b strings.Builder
	for line := range strings.Lines(code[from:to]) {
		b.WriteString("-" + line)
	}
	for line := range strings.Lines(code[from:c.from] + c.instead + code[c.to:to]) {
		b.WriteString("+" + line)
	}
	return b.String()
}

// shifted are comparisons off by one, and connectives turned.
var shifted = map[token.Token]string{
	token.LSS: "<=", token.LEQ: "<", token.GTR: ">=", token.GEQ: ">", token.EQL: "!=", token.NEQ: "==", token.LAND: "||", token.LOR: "&&",
	token.ADD: "-", token.SUB: "+",
}

// changesOf lists what can be changed in a file.
func changesOf(path, code string) (all []change, err error) {
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, path, code, 0)
	if err != nil {
		return nil, err
	}
	at := func(p token.Pos) int { return set.Position(p).Offset }
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GenDecl:
			return n.Tok == token.VAR
		case *ast.IfStmt:
			from, to := at(n.Cond.Pos()), at(n.Cond.End())
			all = append(all, change{from, to, "!(" + code[from:to] + ")", "negate"})
		case *ast.BinaryExpr:
			if instead := shifted[n.Op]; instead != "" {
				from := at(n.OpPos)
				all = append(all, change{from, from + len(n.Op.String()), instead, "shift"})
			}
		case *ast.ExprStmt:
			all = append(all, change{at(n.Pos()), at(n.End()), "", "drop"})
		case *ast.IncDecStmt:
			all = append(all, change{at(n.Pos()), at(n.End()), "", "drop"})
		case *ast.AssignStmt:
			if n.Tok != token.DEFINE {
				all = append(all, change{at(n.Pos()), at(n.End()), "", "drop"})
			}
		case *ast.CallExpr:
			for i := 0; i+1 < len(n.Args); i++ {
				a, b := n.Args[i], n.Args[i+1]
				middle := code[at(a.End()):at(b.Pos())]
				all = append(all, change{at(a.Pos()), at(b.End()), code[at(b.Pos()):at(b.End())] + middle + code[at(a.Pos()):at(a.End())], "swap"})
			}
		}
		return true
	})
	return all, nil
}
