package translate

import (
	"encoding/json"
	"runtime"
	"strings"
	"testing"
)

func nested(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }

func TestValidJSONBoundsDepth(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		nested(maxJSONDepth):     true,
		nested(maxJSONDepth + 1): false,
		strings.Repeat(`{"a":`, maxJSONDepth) + "1" + strings.Repeat("}", maxJSONDepth):     true,
		strings.Repeat(`{"a":`, maxJSONDepth+1) + "1" + strings.Repeat("}", maxJSONDepth+1): false,
		`["` + strings.Repeat(`[`, 1000) + `"]`:                                             true, // within a string
		`["\"` + strings.Repeat(`[`, 1000) + `"]`:                                           true,
		`["\\",` + nested(maxJSONDepth) + `]`:                                               false,
		"[" + strings.Repeat("[],", 1000) + "[]]":                                           true, // side by side
		`"`: false, `"\`: false, "": false, "[": false, "]": false,
	} {
		if got := ValidJSON(text); got != want || ValidJSON([]byte(text)) != want {
			t.Errorf("%.40q… is valid: %t", text, got)
		}
	}
}

// Hostile nesting takes neither heap nor stack. Not parallel: it measures the whole process.
func TestValidJSONTakesNoStack(t *testing.T) {
	hostile := []byte(strings.Repeat("[", 1<<20))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	valid := make(chan bool)
	go func() { valid <- ValidJSON(hostile) }() // on a stack of its own
	if <-valid {
		t.Error("it is valid")
	}
	runtime.ReadMemStats(&after)
	// The runtime may free stacks of earlier tests meanwhile, so that the second difference can be negative.
	heap, stack := after.TotalAlloc-before.TotalAlloc, int64(after.StackSys)-int64(before.StackSys)
	if heap > 1<<20 || stack > 1<<20 {
		t.Errorf("1 MiB of [ takes %d KiB of heap, %d KiB of stack", heap>>10, stack>>10)
	}
}

func FuzzValidJSON(f *testing.F) {
	for _, seed := range []string{`{"a":[1,"]\"["]}`, nested(maxJSONDepth + 1), `"\u00e9"`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if ValidJSON(text) && !json.Valid([]byte(text)) && len(text) < 1000 {
			t.Errorf("%q is not JSON", text)
		}
		if ValidJSON(text) != ValidJSON([]byte(text)) {
			t.Errorf("%q differs from its bytes", text)
		}
	})
}
