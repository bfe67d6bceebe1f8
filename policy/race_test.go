//go:build race

package policy

// raceDetector says that the race detector is on, which allocates on its own account.
const raceDetector = true
