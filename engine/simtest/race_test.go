//go:build race

package simtest

// raceDetector says that the race detector is on: it draws the order in which goroutines run.
const raceDetector = true
