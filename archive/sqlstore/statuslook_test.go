package sqlstore

import (
	"testing"
	"time"
)

func testStatusLook(t *testing.T, f *fixture) {
	if look, ok, err := f.StatusLook(f.ctx); ok || err != nil {
		t.Errorf("before any look: %v, %v", look, err)
	}
	edition := value(f.Edition(f.ctx))(t)
	for i, counts := range []string{`{"a":1}`, `{"b":"ü"}`} {
		want := StatusLook{At: f.time.Add(time.Duration(i) * time.Minute), Counts: []byte(counts)}
		wantNil(t, f.SaveStatusLook(f.ctx, want))
		got, ok, err := f.StatusLook(f.ctx)
		wantNil(t, err)
		if !ok || !got.At.Equal(want.At) || string(got.Counts) != counts {
			t.Errorf("saved %v, read %v", want, got)
		}
	}
	equal(t, value(f.Edition(f.ctx))(t), edition)
}
