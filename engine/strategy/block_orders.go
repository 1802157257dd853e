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

func (o orderBlock) definition() *definition { return known[o.order.String()] }

func (o orderBlock) arguments() []argument { return nil }

func (o orderBlock) branches(within demands) ([]Branch, error) {
	return []Branch{within.branch(o.order)}, nil
}

func (o orderBlock) note(*Node) {}

func (o orderBlock) warn(*finder, string, demands, []Branch) error { return nil }
