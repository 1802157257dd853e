package simtest

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/strategy"
)

var percentages = []int{1, 20, 50, 99}

// drawMost makes up the number of a MaxSimultaneous, or a percentage.
func (s *sim) drawMost() string {
	number := strconv.Itoa(1 + s.r.IntN(5))
	if s.lists != nil && s.lists.IntN(3) == 0 {
		return fmt.Sprintf(`"%d%%"`, percentages[s.lists.IntN(len(percentages))])
	}
	return number
}

// numbered is the plan that a reserve for `most` chunks has to follow now. The numbers come from the model's own counts.
func (s *sim) numbered(text string, most int) *strategy.Plan {
	for _, percent := range percentages {
		of := fmt.Sprintf(`"%d%%"`, percent)
		if !strings.Contains(text, of) {
			continue
		}
		number := max(1, percent*(s.m.allInFlight()+most)/100)
		for step := 2; number >= 32; step *= 2 { // five binary digits are left
			if number < 32*step {
				number -= number % step
				break
			}
		}
		s.tally.add("limit in percent", 1)
		if number > 1 {
			s.tally.add("limit in percent above one", 1)
		}
		text = strings.ReplaceAll(text, of, strconv.Itoa(number))
	}
	parsed, err := strategy.Parse(text)
	s.must(text, err)
	return parsed.Plan()
}

func (m *model) allInFlight() (n int) {
	for _, x := range m.subs {
		if x.state == queue.Open {
			n += int(x.count(queue.ChunkReserved))
		}
	}
	return n
}
