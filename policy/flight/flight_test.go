package flight

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"sara/policy/panics"
)

type key struct{ a, b string }

func TestCallersOfAKeyShareACall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g Group[key, int]
		calls, end, failed := 0, make(chan struct{}), errors.New("failed")
		for range 3 {
			go func() {
				value, err := g.Do(t.Context(), key{"a", "b c"}, func(context.Context) (int, error) {
					calls++
					<-end
					return 7, failed
				})
				if value != 7 || err != failed {
					t.Errorf("got %d, %v", value, err)
				}
			}()
		}
		synctest.Wait()
		if value, err := g.Do(t.Context(), key{"a b", "c"}, func(context.Context) (int, error) { return 8, nil }); value != 8 || err != nil {
			t.Errorf("another key: %d, %v", value, err)
		}
		close(end)
		synctest.Wait()
		if value, err := g.Do(t.Context(), key{"a", "b c"}, func(context.Context) (int, error) { return 9, nil }); value != 9 || err != nil {
			t.Errorf("after the call: %d, %v", value, err)
		}
		if calls != 1 {
			t.Errorf("%d calls", calls)
		}
	})
}

// A caller who leaves does not fail the others, whether it was the first or not, and one who has left starts no call.
func TestACallContinuesWhenCallersLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g Group[key, int]
		end := make(chan struct{})
		call := func(ctx context.Context) (int, error) {
			<-end
			return 7, ctx.Err()
		}
		leaving, leave := context.WithCancel(t.Context())
		for _, ctx := range []context.Context{leaving, t.Context(), leaving} {
			go func() {
				value, err := g.Do(ctx, key{}, call)
				if left := ctx == leaving; left != errors.Is(err, context.Canceled) || left != (value == 0) {
					t.Errorf("got %d, %v", value, err)
				}
			}()
			synctest.Wait()
		}
		leave()
		synctest.Wait()
		close(end)
		synctest.Wait()
		called := false
		_, err := g.Do(leaving, key{}, func(context.Context) (int, error) {
			called = true
			return 7, nil
		})
		if synctest.Wait(); called || !errors.Is(err, context.Canceled) {
			t.Errorf("after it left: %v, called: %v", err, called)
		}
	})
}

// The panic keeps the stack of its own goroutine when it passes through several.
func TestAPanicReachesAllCallers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var inner, outer Group[key, int]
		end := make(chan struct{})
		for range 2 {
			go func() {
				defer func() {
					bug, ok := recover().(*panics.Error)
					if !ok || bug.Value != "a bug" || strings.Count(bug.Error(), "[running") != 1 {
						t.Errorf("recovered %v", bug)
					}
				}()
				_, err := outer.Do(t.Context(), key{}, func(ctx context.Context) (int, error) {
					return inner.Do(ctx, key{}, func(context.Context) (int, error) {
						<-end
						panic("a bug")
					})
				})
				t.Errorf("no panic: %v", err)
			}()
		}
		synctest.Wait()
		close(end)
		synctest.Wait()
	})
}
