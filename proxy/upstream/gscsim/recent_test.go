package gscsim

import "testing"

// The rows of recent answers are bounded: the oldest answers are evicted first, and one that is too large alone is not kept.
func TestRecentAnswersAreBounded(t *testing.T) {
	var r recentAnswers
	const size = maxRecentRows / 4
	for start := range 10 {
		r.put(answerKey{start: start}, make([]row, size))
	}
	r.put(answerKey{start: -1}, make([]row, maxRecentRows+1))
	kept := 0
	for start := -1; start < 10; start++ {
		if rows, ok := r.get(answerKey{start: start}); ok {
			kept += len(rows)
			if start < 7 {
				t.Errorf("answer %d is kept", start)
			}
		}
	}
	if kept != 3*size || len(r.byKey) != len(r.order) {
		t.Errorf("%d rows are kept in %d answers, want %d in 3; the order has %d", kept, len(r.byKey), 3*size, len(r.order))
	}
}
