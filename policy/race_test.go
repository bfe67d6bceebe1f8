//go:build race

package policy

// raceDetector reports whether the race detector is on; it allocates.
const raceDetector = true
