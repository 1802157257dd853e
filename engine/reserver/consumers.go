package reserver

// consumers interns the names that reservations were made under and counts what each holds. A name is forgotten when its
// last reservation goes.
type consumers struct {
	ids   map[string]uint32
	table []consumer
	free  []uint32
}

type consumer struct {
	name string
	held int
}

func (c *consumers) init() { c.ids = map[string]uint32{} }

func (c *consumers) enter(name string) uint32 {
	id, known := c.ids[name]
	if !known {
		if n := len(c.free); n > 0 {
			id = c.free[n-1]
			c.free = c.free[:n-1]
			c.table[id] = consumer{name: name}
		} else {
			id = uint32(len(c.table))
			c.table = append(c.table, consumer{name: name})
		}
		c.ids[name] = id
	}
	c.table[id].held++
	return id
}

func (c *consumers) leave(id uint32) {
	entry := &c.table[id]
	entry.held--
	if entry.held == 0 {
		delete(c.ids, entry.name)
		*entry = consumer{}
		c.free = append(c.free, id)
	}
}

func (c *consumers) name(id uint32) string { return c.table[id].name }

func (c *consumers) each(fn func(name string, held int)) {
	for i := range c.table {
		if c.table[i].held > 0 {
			fn(c.table[i].name, c.table[i].held)
		}
	}
}
