package instrument

import "github.com/quern-queue/quern/wasm/scan/decode"

const (
	nameSection       = "name"
	functionNames     = 1 // id of the subsection with the names of functions
	maxNameSubsection = 16
)

// names rewrites the name section: only the names of functions, under their new indexes. A name section that cannot be read
// is left out: it has no meaning for how the module runs.
func (w *rewriter) names() (c code) {
	for _, section := range w.report.Sections {
		if section.ID != 0 || section.Name != nameSection {
			continue
		}
		r := decode.Range(w.in, section.Start, section.End)
		for range maxNameSubsection {
			if r.Len() == 0 {
				break
			}
			id := r.Byte()
			content := r.Sub(r.U32())
			if id != functionNames {
				continue
			}
			names, ok := w.functionNames(content)
			if !ok {
				return nil
			}
			var kept code
			kept.name(nameSection)
			kept.section(functionNames, names)
			c.section(0, kept)
			return c
		}
	}
	return nil
}

func (w *rewriter) functionNames(r *decode.Reader) (c code, ok bool) {
	n := r.Count("names")
	c.unsigned(uint64(n))
	previous := int64(-1)
	for range n {
		index, name := r.U32(), r.Name()
		if r.Err() != nil || int64(index) <= previous || uint64(index) >= uint64(len(w.report.Functions)) {
			return nil, false
		}
		previous = int64(index)
		c.unsigned(uint64(w.function(index)))
		c.name(string(name))
	}
	return c, r.Err() == nil && r.Len() == 0
}
