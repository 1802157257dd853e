package shard

import "context"

// CatchUp ticks until nothing is due any more and what followed from it is committed. What is due again because of a commit, like a
// chunk that expired and needs no back-off, is done too.
func (s *Shard) CatchUp(ctx context.Context) error {
	for {
		s.Worker.Tick()
		s.mu.Lock()
		err := s.usable()
		b := s.writer.pending()
		s.mu.Unlock()
		if err != nil || b == nil {
			return err
		}
		if err := b.Wait(); err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
}
