//go:build !linux

package cpubound

import "time"

const shortSlice = 0

func setSlice(time.Duration) {}
