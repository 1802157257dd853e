package simtest

import "testing"

// Fair looks at equally few submissions per chunk with 200 tenants and with 4,000, with every block inside and around it, with nothing
// held and with half of the tenants at their limits.
func TestCostOfFair(t *testing.T) {
	t.Parallel()
	const bound = 4 // submissions per chunk, also where it does not grow
	for _, text := range []string{
		`Fair("own", OldestFirst)`, `Fair("own", Random)`, `Fair("tenth", NewestFirst)`, `Fair("$submission", CustomPriority)`,
		`Fair("own", time, OldestFirst)`, `Fair("tenth", Fair("$submission", OldestFirst))`, `Fair("half", Fair("own", Random))`,
		`Fair("own", MaxSimultaneous("own", 1, OldestFirst))`, `MaxSimultaneous("own", 1, Fair("tenth", Random))`,
		`Fair("tenth", PreferDistinct("own", 1, OldestFirst))`, `PreferDistinct("own", 1, Fair("tenth", OldestFirst))`,
		`SelectOnly("half", 1, Fair("own", OldestFirst))`, `Fair("own", OrElse(SelectOnly("half", 1, Random), OldestFirst))`,
		`OrElse(SelectOnly("half", 9, Fair("own", Random)), Fair("own", Random))`,
	} {
		t.Run(text, func(t *testing.T) {
			t.Parallel()
			few, many := costs(t, text, 200), costs(t, text, 4000)
			for phase := range few {
				if few[phase] == 0 || many[phase] > 2*few[phase] || many[phase] > bound {
					t.Errorf("%s: %.2f submissions are examined per chunk with 200 submissions, %.2f with 4,000; want some, at most twice as many, and at most %d", phases[phase], few[phase], many[phase], bound)
				}
			}
		})
	}
}
