package store

import "testing"

// A move into a cluster takes the rows of every table that changes put rows into.
func TestMoveTakesEveryTable(t *testing.T) {
	t.Parallel()
	moved := map[string]bool{"access": true} // MoveTo has a step of its own for it
	for _, step := range movedSteps {
		moved[inserts.FindStringSubmatch(changeStatements[step])[1]] = true
	}
	for step, statement := range changeStatements {
		if of := inserts.FindStringSubmatch(statement); of != nil && !moved[of[1]] {
			t.Errorf("%s puts rows into the table %s, and a move leaves them behind", step, of[1])
		}
	}
}
