package panics

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

func call(f func()) (err error) {
	defer Recover(&err)
	f()
	return nil
}

// A panic that passes through several goroutines keeps its value and the stack of the first.
func TestAPanicIsAnErrorWithTheStackOfItsGoroutine(t *testing.T) {
	err := call(func() { panic("a bug") })
	again := call(func() { Repanic(fmt.Errorf("look up: %w", err)) })
	e, ok := errors.AsType[*Error](again)
	if !ok || e.Value != "a bug" || again != err {
		t.Fatalf("%v, and then %v", err, again)
	}
	if text := e.Error(); !strings.HasPrefix(text, "panic: a bug\n") || !strings.Contains(text, "TestAPanicIsAnError") {
		t.Errorf("the error reads %q", text)
	}
}

func TestOtherErrorsDoNotPanic(t *testing.T) {
	for _, err := range []error{nil, errors.New("failed")} {
		if got := call(func() { Repanic(err) }); got != nil {
			t.Errorf("%v: %v", err, got)
		}
	}
}
