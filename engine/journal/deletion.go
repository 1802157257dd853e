package journal

import "github.com/quern-queue/quern/engine/queue"

// Deletion orders that an ended submission leaves the history with all that belongs to it. The store
// deletes it; the op stands before that, so that a store that is older than the deletion hears of it
// at a replay. Applying it twice is applying it once, and an unknown submission is one that is gone.
type Deletion struct{ ID queue.SubmissionID }

func (d *Deletion) fields(c *coder) { unsigned(c, &d.ID) }
