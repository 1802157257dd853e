//go:build race

package web

// raceDetector says that every goroutine and allocation carries the detector's own memory.
const raceDetector = true
