package main

import "testing"

// --until-empty prints what it waits for once the reason has lasted and no command runs, and each reason once.
func TestIdleness(t *testing.T) {
	t.Parallel()
	var i idleness
	printed := map[string]int{}
	look := func(why string, running int64, times int) {
		for range times {
			if i.isNews(why, running) {
				printed[why]++
			}
		}
	}
	look("busy", 2, 3*idleLooks)
	look("short", 0, idleLooks-1)
	look("", 0, 2*idleLooks)
	look("paused", 0, 3*idleLooks)
	look("waiting", 0, idleLooks)
	look("paused", 0, idleLooks)
	if len(printed) != 2 || printed["paused"] != 1 || printed["waiting"] != 1 {
		t.Errorf("printed %v, want paused and waiting once each", printed)
	}
}
