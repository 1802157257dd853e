package strategy

// The four orders are the leaves of every strategy.
var (
	randomDefinition         = orderDefinition(Random, "random")
	oldestFirstDefinition    = orderDefinition(OldestFirst, "oldest_first")
	newestFirstDefinition    = orderDefinition(NewestFirst, "newest_first")
	customPriorityDefinition = orderDefinition(CustomPriority, "custom_priority")
)

func orderDefinition(order Order, snake string) definition {
	return definition{
		name:  order.String(),
		snake: snake,
		build: func([]argument) block { return orderBlock{order} },
	}
}

// orderBlock offers everything, in one order.
type orderBlock struct{ order Order }

func (b orderBlock) definition() *definition { return known[b.order.String()] }

func (b orderBlock) arguments() []argument { return nil }

func (b orderBlock) branches(within scope) ([]Branch, error) {
	return []Branch{within.branch(b.order)}, nil
}
