package wire

import "github.com/quern-queue/quern/sdk/api"

// object says how the fields of a T are read, in the order in which documents usually have them: the place of a field is its bit in
// fields, so there are at most 64. A field that the object must have stands first.
type object[T any] []property[T]

type property[T any] struct {
	name string
	read func(*scanner, *T)
	must bool
}

// read reads an object into `to`, and says which fields it has.
func (o object[T]) read(s *scanner, to *T) (seen fields) {
	s.open('{', api.ObjectDetail)
	next := 0
	for {
		name, ok := s.field()
		if !ok {
			break
		}
		at := o.find(name, next)
		if at < 0 {
			s.unknown()
			continue
		}
		if next = at + 1; s.fresh(&seen, uint(at)) {
			o[at].read(s, to)
		}
	}
	if o[0].must {
		s.require(seen, o[0].name)
	}
	return seen
}

// decode reads data, which is one object.
func (o object[T]) decode(s *scanner, data []byte, to *T) error {
	o.read(s.begin(data), to)
	return s.finish()
}

// lenient is decode for answers: fields that a newer server adds are passed over.
func (o object[T]) lenient(s *scanner, data []byte, to *T) error {
	s.begin(data).lenient = true
	o.read(s, to)
	return s.finish()
}

// find is the place of a field, which is looked for from the place `from` on; -1: there is none of this name.
func (o object[T]) find(name []byte, from int) int {
	for at := from; at < len(o); at++ {
		if o[at].name == string(name) {
			return at
		}
	}
	for at := range from {
		if o[at].name == string(name) {
			return at
		}
	}
	return -1
}

// within is the object of a U that is part of a T, whose fields stand among those of the T.
func within[T, U any](o object[U], part func(*T) *U) (fields object[T]) {
	for _, p := range o {
		fields = append(fields, property[T]{name: p.name, read: func(s *scanner, to *T) { p.read(s, part(to)) }})
	}
	return fields
}

// array reads an array of at most api.MaxBatch objects.
func array[T any](s *scanner, items *[]T, item object[T]) {
	s.open('[', arrayDetail)
	for s.element() {
		if len(*items) == api.MaxBatch {
			s.depth-- // the list is wrong, not its entry
			s.fail(tooMany(api.MaxBatch))
			return
		}
		var zero T
		*items = append(*items, zero)
		item.read(s, &(*items)[len(*items)-1])
	}
}
