package web

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/sdk/api"
)

// testClockPath moves the clock of a server that has one for tests. Only `quern dev --test-clock` has it, so the
// OpenAPI document does not.
const testClockPath = "/dev/clock"

// mostAhead is how far a clock can be ahead of the machine's. Ids begin with the time, and have no room for
// years after 2109.
const mostAhead = 50 * 365 * 24 * time.Hour

// testClockRoute answers when everything that became due is done.
func testClockRoute(e *echo.Echo, c *clock, move func(by time.Duration)) {
	e.POST(testClockPath, func(x echo.Context) error {
		var asked struct {
			AdvanceMS *int64 `json:"advance_ms"`
		}
		if err := json.NewDecoder(io.LimitReader(x.Request().Body, 1<<10)).Decode(&asked); err != nil {
			return newProblem(codeMalformed, "The body cannot be read: "+err.Error())
		}
		most := (mostAhead - c.now().Sub(c.wall())).Milliseconds()
		if ms := asked.AdvanceMS; ms == nil || *ms < 0 || *ms > most {
			const detail = "must be given, from 0 to %d: the clock only goes forward, by 50 years at most"
			return newProblem(queue.CodeInvalid, "The clock was not moved.",
				queue.Problem{Pointer: "/advance_ms", Detail: fmt.Sprintf(detail, most)})
		}
		move(time.Duration(*asked.AdvanceMS) * time.Millisecond)
		return x.JSON(http.StatusOK, struct {
			Now api.Time `json:"now"`
		}{api.At(c.now())})
	})
}
