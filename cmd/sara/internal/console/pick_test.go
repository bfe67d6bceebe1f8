package console

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
)

func TestPickReadsNumbersAndRanges(t *testing.T) {
	t.Parallel()
	for answer, want := range map[string][]int{
		"1\n": {0}, "2, 1\r\n": {0, 1}, "1-3,2": {0, 1, 2}, "5 1\n": {0, 4}, "all\n": {0, 1, 2, 3, 4}, "none\n": {}, "3-3\n": {2},
	} {
		c := Console{Stdin: strings.NewReader(answer), Stderr: io.Discard}
		if got, err := c.Pick(t.Context(), "Which?", 5); err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: %v, %v; want %v", answer, got, err, want)
		}
	}
}

func TestPickAsksAgainUntilTheAnswerIsValid(t *testing.T) {
	t.Parallel()
	var said strings.Builder
	c := Console{Stdin: strings.NewReader("\n0\n6\n3-1\n1-\nx\nall,1\n2\n"), Stderr: &said}
	got, err := c.Pick(t.Context(), "Which?", 5)
	if err != nil || !slices.Equal(got, []int{1}) || strings.Count(said.String(), "Which?") != 8 {
		t.Errorf("%v, %v after\n%s", got, err, &said)
	}
	for _, want := range []string{"type numbers, all or none\n", `"0" is neither a number of 1 to 5 nor a range of them`, "all stands alone\n"} {
		if !strings.Contains(said.String(), want) {
			t.Errorf("it does not say %q:\n%s", want, &said)
		}
	}
}

func TestPickEndsWithTheInputOrTheContext(t *testing.T) {
	t.Parallel()
	c := Console{Stdin: strings.NewReader("x"), Stderr: io.Discard}
	if got, err := c.Pick(t.Context(), "Which?", 5); got != nil || !errors.Is(err, io.EOF) {
		t.Errorf("at the end of the input: %v, %v", got, err)
	}
	silent, end := io.Pipe()
	t.Cleanup(func() { _ = end.Close() })
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	c = Console{Stdin: silent, Stderr: io.Discard}
	if got, err := c.Pick(ctx, "Which?", 5); got != nil || !errors.Is(err, context.Canceled) {
		t.Errorf("interrupted: %v, %v", got, err)
	}
}
